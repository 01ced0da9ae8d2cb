// Everything in the page that has too little room, in words: what is wider than the window, and texts in columns that are narrower
// than their words. Run in a page by the tests; what scrolls by itself may be wider.
(() => {
  const found = [];
  const name = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}" id="${element.id}"> ${element.textContent.trim().slice(0, 40)}`;
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => {
    for (let parent = element; parent && parent !== document.body; parent = parent.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(parent).overflowX)) return true;
    }
    return false;
  };
  if (document.scrollingElement.scrollWidth > width) found.push(`the page is ${document.scrollingElement.scrollWidth} wide`);
  const pen = document.createElement("canvas").getContext("2d");
  // Longer words may break, and names and digests, which may anywhere, earlier; then so many letters are in a line.
  const [LONGEST, ANYWHERE] = [12, 8];
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest("script, svg") && element.tagName !== "svg") continue;
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (!element.checkVisibility() || style.position === "absolute" || !box.width) continue;
    if ((box.right > width + 1 || box.left < -1) && !scrolls(element)) found.push(`${name(element)} is outside: ${box.left} to ${box.right}`);
    const text = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join(" ");
    if (!text.trim() || style.display.startsWith("inline")) continue;
    pen.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const words = text.split(/[\s/,=–-]+/).map((word) => pen.measureText(word.slice(0, style.overflowWrap === "anywhere" ? ANYWHERE : LONGEST)).width);
    const inner = element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // The pen knows of no narrower spacing.
    if (Math.max(...words) * 0.98 > inner + 1) found.push(`${name(element)} has ${inner} for a word of ${Math.max(...words)}`);
  }
  return found;
})()
