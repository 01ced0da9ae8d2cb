# Continues `models.py`: files of configurations, and how Hydra composes them.

# As OmegaConf reads numbers: unlike other readers of YAML, it takes `1e-3` as one.
FLOAT = re.compile(r"[-+]?([0-9][0-9_]*)\.[0-9_]*([eE][-+]?[0-9]+)?$|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+$|\.[0-9_]+([eE][-+][0-9]+)?$")
WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
WORDS.update({word: value for value, words in ((True, "true yes on"), (False, "false no off")) for one in words.split() for word in (one, one.title(), one.upper())})
WORDS.update({sign + word: float(sign + word[1:]) for sign in ("", "-", "+") for word in (".inf", ".Inf", ".INF")}, **{word: float("nan") for word in (".nan", ".NaN", ".NAN")})
# Largest file.
MAX_FILE = 1 << 20


class Unread(ValueError):
    """A part of YAML that this program does not read."""


class Yaml:
    """The part of YAML that configurations use: a script's Python need not have a package that reads it."""

    def __init__(self, words):
        self.lines = []
        for line in words.splitlines():
            plain = self.without_comment(line).rstrip()
            if plain.strip() and not (plain == "---" and not self.lines):
                if "\t" in plain[: len(plain) - len(plain.lstrip())]:
                    raise Unread()
                self.lines.append((len(plain) - len(plain.lstrip()), plain.lstrip(), line))
            else:
                self.lines.append((None, "", line))
        self.at = 0

    def without_comment(self, line):
        quote = None
        for place, char in enumerate(line):
            if quote:
                quote = None if char == quote else quote
            elif char in "\"'" and line[:place].rstrip()[-1:] in ("", ":", ",", "[", "{", "-"):
                quote = char
            elif char == "#" and line[place - 1: place] in ("", " ", "\t"):
                return line[:place]
        return line

    def read(self):
        found = self.block(-1)
        if self.peek() is not None:
            raise Unread()
        return found

    def peek(self):
        while self.at < len(self.lines) and self.lines[self.at][0] is None:
            self.at += 1
        return self.lines[self.at] if self.at < len(self.lines) else None

    def block(self, above, is_list=False):
        """What is indented more than `above`; a list may be indented like its key."""
        line = self.peek()
        if line is None or line[0] < above or line[0] == above and not (is_list and line[1].startswith(("- ", "-\n")) or is_list and line[1] == "-"):
            return None
        indent, words, _ = line
        if words.startswith("- ") or words == "-":
            return self.sequence(indent)
        if self.key_of(words) is None:
            self.at += 1
            return self.scalar(words)
        return self.mapping(indent)

    def sequence(self, indent):
        found = []
        while True:
            line = self.peek()
            if line is None or line[0] != indent or not (line[1].startswith("- ") or line[1] == "-"):
                if line is not None and line[0] > indent:
                    raise Unread()
                return found
            rest = line[1][1:]
            inner = rest.lstrip()
            if inner and (self.key_of(inner) is not None or inner.startswith("- ")):
                # An item that begins in the line of its dash.
                self.lines[self.at] = (indent + 1 + len(rest) - len(inner), inner, line[2])
                found.append(self.block(indent))
            else:
                self.at += 1
                found.append(self.scalar(inner, indent) if inner else self.block(indent + 1))

    def key_of(self, words):
        """The key of a line and what follows, or nothing."""
        if words[0] in "\"'":
            end = words.find(words[0], 1)
            key, rest = words[1:end], words[end + 1:].lstrip()
            return (key, rest[1:].strip()) if end > 0 and rest.startswith(":") and rest[1:2] in ("", " ") else None
        if words[0] in "[{":
            return None
        if words[0] in "&*!?|>%@`":
            raise Unread()
        key, colon, rest = words.partition(": ")
        if not colon and words.endswith(":"):
            key, colon, rest = words[:-1], ":", ""
        return (key.strip(), rest.strip()) if colon else None

    def mapping(self, indent):
        found = {}
        while True:
            line = self.peek()
            if line is None or line[0] < indent:
                return found
            pair = self.key_of(line[1]) if line[0] == indent else None
            if pair is None:
                raise Unread()
            key, rest = pair
            key = key if line[1][0] in "\"'" else self.plain(key)
            self.at += 1
            if rest and rest[0] in "|>":
                found[key] = self.text_of(indent, rest)
            else:
                found[key] = self.scalar(rest, indent) if rest else self.block_below(indent)

    def block_below(self, indent):
        line = self.peek()
        if line is not None and line[0] == indent and (line[1].startswith("- ") or line[1] == "-"):
            return self.sequence(indent)
        return self.block(indent + 1)

    def text_of(self, indent, head):
        if head not in ("|", "|-", ">", ">-"):
            raise Unread()
        lines = []
        while self.at < len(self.lines) and (self.lines[self.at][0] is None or len(self.lines[self.at][2]) - len(self.lines[self.at][2].lstrip()) > indent):
            lines.append(self.lines[self.at][2].strip())
            self.at += 1
        return ("\n" if head[0] == "|" else " ").join(lines).strip() + ("" if "-" in head else "\n")

    def scalar(self, words, indent=-1):
        if words[0] in "[{":
            while not self.is_closed(words):
                line = self.peek()
                if line is None:
                    raise Unread()
                words += " " + line[1]
                self.at += 1
            value, rest = self.flow(words)
            if rest.strip():
                raise Unread()
            return value
        following = self.peek()
        if following is not None and following[0] > indent and indent >= 0:
            raise Unread()
        return self.plain(words)

    def is_closed(self, words):
        try:
            self.flow(words)
        except IndexError:
            return False
        return True

    def flow(self, words):
        """A value in brackets at the beginning of a text, and what follows. Raises `IndexError` if it does not end there."""
        words = words.lstrip()
        if words[0] in "[{":
            found, is_map, rest = [], words[0] == "{", words[1:].lstrip()
            while rest[0] not in "]}":
                if is_map:
                    match = re.match(r"\s*(\"[^\"]*\"|'[^']*'|[^:,{}\[\]]+?)\s*:(?:\s+|(?=[\"'\[{]))", rest)
                    if match is None:
                        raise IndexError() if ":" not in rest else Unread()
                    value, rest = self.flow(rest[match.end():])
                    found.append((self.plain(match.group(1)), value))
                else:
                    value, rest = self.flow(rest)
                    found.append(value)
                rest = rest.lstrip()
                if rest[0] == ",":
                    rest = rest[1:].lstrip()
                elif rest[0] not in "]}":
                    raise Unread()
            return (dict(found) if is_map else found), rest[1:]
        if words[0] in "\"'":
            end = words.index(words[0], 1) if words[0] in words[1:] else len(words) + 1
            return self.plain(words[: end + 1]), words[end + 1:] if end < len(words) else words[end]
        depth = 0
        for place, char in enumerate(words):
            depth += (char == "{") - (char == "}" and depth > 0)
            if char in ",]" and depth == 0 or char == "}" and depth == 0 and "${" not in words[:place]:
                return self.plain(words[:place].strip()), words[place:]
            if char == "}" and depth == 0 and words[place + 1: place + 2] in ("}", ""):
                return self.plain(words[: place + 1].strip()), words[place + 1:]
        raise IndexError()

    def plain(self, words):
        if words in WORDS:
            return WORDS[words]
        if words[0] in "\"'":
            if len(words) < 2 or words[-1] != words[0]:
                raise Unread()
            inner = words[1:-1]
            if words[0] == "'":
                return inner.replace("''", "'")
            return json.loads(words) if "\\" in inner else inner
        if words[0] in "&*!|>%@`":
            raise Unread()
        if re.fullmatch(r"[-+]?(0|[1-9][0-9_]*)", words):
            return int(words.replace("_", ""))
        if FLOAT.match(words):
            return float(words.replace("_", ""))
        if re.fullmatch(r"[-+]?0[0-7xXbo][0-9a-fA-F_]*", words):
            raise Unread()
        return words


def from_yaml(words):
    """What a text of YAML holds, as OmegaConf reads it, or `Unknown`."""
    try:
        return Yaml(words).read()
    except (Unread, IndexError, ValueError, RecursionError):
        return Unknown()


def file_of(path):
    """The text of a small file."""
    path = pathlib.Path(path)
    if path.stat().st_size > MAX_FILE:
        raise OSError("it is large")
    return path.read_text(encoding="utf-8")


# Hydra


class NoConfig(Exception):
    """A configuration that this program cannot compose, with the reason."""


class Composer:
    """Composes configurations as Hydra does: from files of a folder, and from those that the script stores."""

    def __init__(self, folder, store, arguments):
        self.folder, self.store, self.chosen, self.overrides, self.fixed = folder, store, {}, {}, []
        self.config, self.seen, self.groups = {}, 0, {}
        for argument in arguments:
            name, sign, value = argument.partition("=")
            if argument.startswith("-") or not sign:
                continue
            if name.startswith("~"):
                raise NoConfig("an argument removes a part")
            is_new, group = name.startswith("+"), name.lstrip("+")
            if self.is_group(group.partition("@")[0]):
                value = [one.strip() for one in value[1:-1].split(",")] if value.startswith("[") else value
                (self.chosen if is_new else self.overrides)[group] = None if value == "null" else value
            else:
                self.fixed.append((group, value))

    def is_group(self, name):
        return self.folder is not None and (self.folder / name).is_dir() or any(path.startswith(name + "/") for path in self.store)

    def load(self, path):
        """The package, the list of defaults and the values of a configuration."""
        self.seen += 1
        if self.seen > 200:
            raise NoConfig("it has too many parts")
        name = path[:-5] if path.endswith(".yaml") else path
        file = None if self.folder is None else self.folder / (name + ".yaml")
        if file is not None and file.is_file():
            words = file_of(file)
            found = from_yaml(words)
            found = {} if found is None else found
            if not isinstance(found, dict):
                raise NoConfig("`%s.yaml` cannot be read" % name)
            package = re.match(r"(?:\s*#.*\n|\s*\n)*?\s*#\s*@package\s+(\S+)", words)
            return package and package.group(1), found
        if name in self.store:
            return self.store[name]
        raise NoConfig("there is no configuration `%s`" % name)

    def gather(self, defaults, group, package):
        """The overrides in a list of defaults: those of outer lists count."""
        for entry in defaults:
            if isinstance(entry, dict) and len(entry) == 1:
                key, option = next(iter(entry.items()))
                if str(key).startswith("override "):
                    self.overrides.setdefault(self.absolute(key[9:].strip(), group), option)

    def absolute(self, name, group):
        return name[1:] if name.startswith("/") else (group + "/" + name if group else name)

    def compose(self, path, group="", parent="", package=""):
        """Adds a configuration at a package, after and before others as its list of defaults says."""
        _, values = self.load(path)
        values = dict(values)
        defaults = values.pop("defaults", None) or []
        if not isinstance(defaults, list) or is_open(defaults):
            raise NoConfig("a list of defaults is computed")
        self.gather(defaults, group, package)
        if "_self_" not in defaults:
            defaults = [*defaults, "_self_"]
        for entry in defaults:
            if entry == "_self_":
                self.config = merged(self.config, nested(package, values))
            else:
                self.part(entry, group, package)

    def part(self, entry, group, package):
        """One entry of a list of defaults."""
        if isinstance(entry, str):
            path = self.absolute(entry, group)
            place, _, at = path.partition("@")
            self.add(place, place.rpartition("/")[0], at or None, package, entry.partition("@")[0].lstrip("/").rpartition("/")[0])
            return
        if not isinstance(entry, dict) or len(entry) != 1:
            raise NoConfig("a list of defaults is computed")
        key, option = next(iter(entry.items()))
        key = str(key)
        if key.startswith("override "):
            return
        is_optional, key = key.startswith("optional "), key[9:].strip() if key.startswith("optional ") else key
        if key.lstrip("/").startswith("hydra/"):
            return
        name, _, at = key.partition("@")
        place = self.absolute(name, group)
        option = self.overrides.get(place + "@" + at if at else place, option)
        if not isinstance(option, list):
            self.groups[place + "@" + at if at else place] = option
        for one in option if isinstance(option, list) else [option]:
            if one is None:
                continue
            one = str(one)
            if "${" in one or one == "???":
                raise NoConfig("`%s` must be chosen" % key)
            try:
                self.add(place + "/" + one, place, at or None, package, name.lstrip("/"))
            except NoConfig:
                if not is_optional:
                    raise

    def add(self, path, group, at, above, relative):
        header, _ = self.load(path)
        package = at if at is not None else header if header is not None and header != "_group_" else relative.replace("/", ".")
        package = package.replace("_here_", "").strip(".")
        package = above + "." + package if above and package else above or package
        if "_global_" in package:
            package = package.rpartition("_global_")[2].lstrip(".")
        self.compose(path, group, above, package)

    def options(self, group):
        """The names of the configurations of a group."""
        group = group.partition("@")[0]
        files = [] if self.folder is None else (self.folder / group).glob("*.yaml")
        stored = (path[len(group) + 1:] for path in self.store if path.startswith(group + "/"))
        return sorted({file.stem for file in files} | {name for name in stored if "/" not in name})

    def choices(self):
        """The groups of which the configuration has one, as parameters."""
        for group, option in sorted(self.groups.items()):
            names, is_open = self.options(group), option == "???" or "${" in str(option)
            if names and (option is None or isinstance(option, str)):
                yield parameter(group, "value", None if is_open else option, "str", names)

    def whole(self, path):
        known = None
        # An override may be in a part that another one chooses.
        while known != self.overrides:
            known, self.config, self.groups = dict(self.overrides), {}, {}
            self.compose(path)
            for group, option in self.chosen.items():
                self.part({group: option}, "", "")
        found = {name: value for name, value in self.config.items() if name != "hydra"}
        for name, value in self.fixed:
            found = merged(found, nested(name, value))
        return found


def nested(package, values):
    for name in reversed(package.split(".") if package else []):
        values = {name: values}
    return values


def of_node(follower, node, depth=0):
    """The values of a configuration that a script stores."""
    if isinstance(node, type) and node in follower.about:
        if depth > 10 or whole(follower, node):
            raise NoConfig("`%s` is computed" % node.__name__)
        found = {}
        for field in dataclasses.fields(node):
            if field.default is not dataclasses.MISSING:
                value = field.default
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            else:
                is_class = isinstance(field.type, type) and field.type in follower.about
                value = field.type if is_class else "???"
            found[field.name] = of_node(follower, value, depth + 1)
        return found
    if type(node) in follower.about:
        return {field.name: of_node(follower, getattr(node, field.name), depth + 1) for field in dataclasses.fields(node)}
    if isinstance(node, Configuration):
        return of_node(follower, node.plain(), depth + 1)
    if isinstance(node, dict):
        return {name: of_node(follower, value, depth + 1) for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [of_node(follower, value, depth + 1) for value in node]
    if isinstance(node, enum.Enum):
        return node.name
    if is_open(node) or isinstance(node, (Symbol, Function, Class, Instance)):
        raise NoConfig("a value is computed")
    return str(node) if isinstance(node, pathlib.PurePath) else node


class Stored(Model):
    """The store of Hydra."""

    def method(self, follower, name, args, kwargs):
        given = dict(zip(("name", "node", "group", "package", "provider"), args), **kwargs)
        if name != "store" or not isinstance(given.get("name"), str) or follower.unsure:
            follower.hydra["?"] = "the store is computed"
            return Unknown()
        path = (given["group"] + "/" if given.get("group") else "") + given["name"]
        try:
            follower.hydra[path] = (given.get("package"), of_node(follower, given.get("node")))
        except (NoConfig, TypeError) as error:
            follower.hydra["?"] = text(error)
        return None


@models("hydra.core.config_store.ConfigStore.instance")
def hydra_store(follower, args, kwargs):
    return Stored()


@models("hydra.main")
def hydra_main(follower, args, kwargs):
    given = dict(zip(("config_path", "config_name", "version_base"), args), **kwargs)
    folder = pathlib.Path(follower.path).resolve().parent

    def called(*args, **kwargs):
        path, name, version = given.get("config_path", ""), given.get("config_name"), given.get("version_base", "1.1")
        for argument, following in zip(ARGUMENTS, [*ARGUMENTS[1:], ""]):
            name = following if argument in ("--config-name", "-cn") else argument[14:] if argument.startswith("--config-name=") else name
            if argument.startswith(("--config-path", "--config-dir", "-cp", "-cd")):
                path = Unknown()
        if is_open([path, name, version]) or isinstance(path, Symbol) or str(path).startswith("pkg:") or version == "1.0" or "?" in follower.hydra:
            return Unknown()
        path = None if path == "" and version != "1.1" else path
        try:
            composer = Composer(None if path is None else folder / path, follower.hydra, ARGUMENTS)
            values = composer.whole(str(name)) if name is not None else {}
            groups = list(composer.choices())
        except (NoConfig, OSError, ValueError, RecursionError):
            return Unknown()
        fixed = {argument.lstrip("+").split("=")[0] for argument in ARGUMENTS}
        entries = [of_hydra(name, value) for name, value in leaves(values) if name not in fixed]
        groups = [entry for entry in groups if entry["name"] not in fixed]
        return follower.read(Model(), lambda: report("hydra", entries, groups=groups))

    return Decorator(lambda function: Decorator(called))
