//! Texts in which LaTeX finds no command, and which pdfLaTeX sets with the encodings OT1 and T1.

use crate::render::prose::{Part, parts};

/// A label or a number, each character as it is.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    for char in text.chars() {
        // Two of these would be another character: a dash, or a quotation mark.
        if matches!(char, '-' | '\'' | ',') && before == Some(char) {
            escaped.push_str("{}");
        }
        push(&mut escaped, char);
        before = Some(char);
    }
    escaped
}

/// A sentence, in which code is between backticks.
pub(super) fn prose(text: &str) -> String {
    let parts = parts(text).into_iter().map(|part| match part {
        Part::Text(text) => escape(text),
        Part::Code(code) => format!("\\texttt{{{}}}", escape(code)),
    });
    parts.collect()
}

fn push(escaped: &mut String, char: char) {
    match char {
        '\\' => escaped.push_str("\\textbackslash{}"),
        '~' => escaped.push_str("\\textasciitilde{}"),
        '^' => escaped.push_str("\\textasciicircum{}"),
        '`' => escaped.push_str("\\textasciigrave{}"),
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', char]),
        '<' => escaped.push_str("\\textless{}"),
        '>' => escaped.push_str("\\textgreater{}"),
        '|' => escaped.push_str("\\textbar{}"),
        // The encoding OT1 has no command for it.
        '"' => escaped.push_str("\\char34{}"),
        '–' => escaped.push_str("--"),
        '…' => escaped.push_str("\\ldots{}"),
        '\n' => escaped.push(' '),
        char => match MATH.iter().find(|(symbol, _)| *symbol == char) {
            Some((_, math)) => escaped.extend(["$", math, "$"]),
            None => escaped.push(char),
        },
    }
}

/// Characters that no text font of pdfLaTeX has, in its language for formulas.
const MATH: [(char, &str); 95] = [
    ('±', "\\pm"),
    ('−', "-"),
    ('×', "\\times"),
    ('·', "\\cdot"),
    ('≈', "\\approx"),
    ('≠', "\\neq"),
    ('≤', "\\leq"),
    ('≥', "\\geq"),
    ('→', "\\rightarrow"),
    ('←', "\\leftarrow"),
    ('↔', "\\leftrightarrow"),
    ('∞', "\\infty"),
    ('√', "\\surd"),
    ('∝', "\\propto"),
    ('∈', "\\in"),
    ('∂', "\\partial"),
    ('∇', "\\nabla"),
    ('∑', "\\sum"),
    ('∫', "\\int"),
    ('‖', "\\|"),
    ('′', "'"),
    ('°', "^{\\circ}"),
    ('µ', "\\mu"),
    // Greek letters; the others look like Latin ones.
    ('Γ', "\\Gamma"),
    ('Δ', "\\Delta"),
    ('Θ', "\\Theta"),
    ('Λ', "\\Lambda"),
    ('Π', "\\Pi"),
    ('Σ', "\\Sigma"),
    ('Φ', "\\Phi"),
    ('Ψ', "\\Psi"),
    ('Ω', "\\Omega"),
    ('α', "\\alpha"),
    ('β', "\\beta"),
    ('γ', "\\gamma"),
    ('δ', "\\delta"),
    ('ε', "\\varepsilon"),
    ('ζ', "\\zeta"),
    ('η', "\\eta"),
    ('θ', "\\theta"),
    ('ι', "\\iota"),
    ('κ', "\\kappa"),
    ('λ', "\\lambda"),
    ('μ', "\\mu"),
    ('ν', "\\nu"),
    ('ξ', "\\xi"),
    ('π', "\\pi"),
    ('ρ', "\\rho"),
    ('σ', "\\sigma"),
    ('τ', "\\tau"),
    ('φ', "\\varphi"),
    ('χ', "\\chi"),
    ('ψ', "\\psi"),
    ('ω', "\\omega"),
    // Letters of footnotes, and other characters above and below the line.
    ('ᵃ', "^{\\mathrm{a}}"),
    ('ᵇ', "^{\\mathrm{b}}"),
    ('ᶜ', "^{\\mathrm{c}}"),
    ('ᵈ', "^{\\mathrm{d}}"),
    ('ᵉ', "^{\\mathrm{e}}"),
    ('ᶠ', "^{\\mathrm{f}}"),
    ('ᵍ', "^{\\mathrm{g}}"),
    ('ʰ', "^{\\mathrm{h}}"),
    ('ⁱ', "^{\\mathrm{i}}"),
    ('ʲ', "^{\\mathrm{j}}"),
    ('ᵏ', "^{\\mathrm{k}}"),
    ('ˡ', "^{\\mathrm{l}}"),
    ('ᵐ', "^{\\mathrm{m}}"),
    ('ᵒ', "^{\\mathrm{o}}"),
    ('ᵖ', "^{\\mathrm{p}}"),
    ('ʳ', "^{\\mathrm{r}}"),
    ('ˢ', "^{\\mathrm{s}}"),
    ('ᵗ', "^{\\mathrm{t}}"),
    ('ᵘ', "^{\\mathrm{u}}"),
    ('ᵛ', "^{\\mathrm{v}}"),
    ('ʷ', "^{\\mathrm{w}}"),
    ('ᶻ', "^{\\mathrm{z}}"),
    ('ⁿ', "^{n}"),
    ('⁻', "^{-}"),
    ('⁰', "^{0}"),
    ('¹', "^{1}"),
    ('²', "^{2}"),
    ('³', "^{3}"),
    ('⁴', "^{4}"),
    ('⁵', "^{5}"),
    ('⁶', "^{6}"),
    ('⁷', "^{7}"),
    ('⁸', "^{8}"),
    ('⁹', "^{9}"),
    ('₀', "_{0}"),
    ('₁', "_{1}"),
    ('₂', "_{2}"),
    ('₃', "_{3}"),
    ('ₜ', "_{t}"),
    ('½', "\\frac{1}{2}"),
    ('¬', "\\neg"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_text() {
        assert_eq!(
            escape("a_b 50 % & {x} \\input{y} #1 $m$"),
            "a\\_b 50 \\% \\& \\{x\\} \\textbackslash{}input\\{y\\} \\#1 \\$m\\$"
        );
        assert_eq!(escape("1.0 ± 0.2ᵃ"), "1.0 $\\pm$ 0.2$^{\\mathrm{a}}$");
        assert_eq!(escape("--seeds ---x a,,b ''"), "-{}-seeds -{}-{}-x a,{},b '{}'", "no dash, no quotation mark");
        assert_eq!(escape("`a`"), "\\textasciigrave{}a\\textasciigrave{}");
    }

    #[test]
    fn code_in_a_sentence_is_code() {
        assert_eq!(prose("Loss of `train_x`, 50 %"), "Loss of \\texttt{train\\_x}, 50 \\%");
        assert_eq!(prose("`a` and `"), "\\textasciigrave{}a\\textasciigrave{} and \\textasciigrave{}");
    }
}
