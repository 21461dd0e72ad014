package rudderimport

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// systems has the conditions here for the classes true and false, of processors and of operating systems. CFEngine sets
// the classes debian, redhat and suse also on systems that descend from these.
var systems = map[string]string{
	"any": "true", "true": "true", "false": "false", "x86_64": `facts["arch"] == "amd64"`, "aarch64": `facts["arch"] == "arm64"`,
	"linux": `facts["os"] == "linux"`, "windows": `facts["os"] == "windows"`, "freebsd": `facts["os"] == "freebsd"`,
	"debian": isDistribution("debian", "ubuntu", "raspbian", "linuxmint", "kali"), "ubuntu": isDistribution("ubuntu"),
	"redhat": isDistribution("rhel", "centos", "fedora", "almalinux", "rocky", "ol", "scientific"), "fedora": isDistribution("fedora"), "centos": isDistribution("centos"),
	"almalinux": isDistribution("almalinux"), "rocky": isDistribution("rocky"), "suse": isDistribution("sles", "sled", "opensuse-leap", "opensuse-tumbleweed"),
}

// versions has, by distribution, the pattern of the versions in its classes that are a whole version of os-release, as
// ubuntu_22_04 has one.
var versions = map[string]*regexp.Regexp{
	"debian": regexp.MustCompile(`^[0-9]+$`), "centos": regexp.MustCompile(`^[0-9]+$`), "fedora": regexp.MustCompile(`^[0-9]+$`), "ubuntu": regexp.MustCompile(`^[0-9]+_[0-9]+$`),
}

// majors has the distributions by the name in their classes of major versions, such as ubuntu_22. A class of CFEngine has
// the name redhat for RHEL alone, if it has a version.
var majors = map[string]string{"ubuntu": "ubuntu", "redhat": "rhel", "almalinux": "almalinux", "rocky": "rocky"}

// isNumber matches a major version.
var isNumber = regexp.MustCompile(`^[0-9]+$`)

// isDistribution returns a CEL condition for nodes with one of several Linux distributions, named as in
// os-release.
func isDistribution(names ...string) string {
	terms := make([]string, len(names))
	for i, name := range names {
		terms[i] = fmt.Sprintf(`facts["distribution"] == %q`, name)
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return "(" + strings.Join(terms, " || ") + ")"
}

// results has the conditions here for the endings of conditions on results.
var results = map[string]string{
	"ok": `ok(%[1]s)`, "reached": `(ok(%[1]s) || failed(%[1]s))`, "repaired": `changed(%[1]s)`, "kept": `(ok(%[1]s) && !changed(%[1]s))`,
	"error": `failed(%[1]s)`, "not_ok": `failed(%[1]s)`,
}

// convertCondition converts a condition in Rudder's syntax to a condition of Muster. Such a condition is a class
// expression. Empty: always.
func (t *technique) convertCondition(text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", nil
	}
	c := conditionConverter{technique: t, rest: text}
	out := c.alternatives()
	if c.err == nil && strings.TrimSpace(c.rest) != "" {
		c.fail(c.rest)
	}
	if c.err != nil {
		return "", fmt.Errorf("the condition %q of the method or block has no equivalent in Muster: %w", text, c.err)
	}
	return out, nil
}

// conditionConverter converts a condition in Rudder's syntax, a class expression, part by part.
type conditionConverter struct {
	technique *technique
	rest      string
	depth     int
	err       error
}

// fail keeps, as the conversion's error, the first word of a Rudder condition that Muster cannot express.
func (c *conditionConverter) fail(word string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s", strings.TrimSpace(word))
	}
}

// accept consumes the next token of a Rudder condition if the token is one of the given tokens.
func (c *conditionConverter) accept(tokens ...string) bool {
	c.rest = strings.TrimLeft(c.rest, " \t\n")
	for _, token := range tokens {
		if rest, ok := strings.CutPrefix(c.rest, token); ok {
			c.rest = rest
			return true
		}
	}
	return false
}

// alternatives converts the terms of a class expression joined by a vertical bar.
func (c *conditionConverter) alternatives() string {
	out := c.conjunction()
	for c.err == nil && c.accept("||", "|") {
		out += " || " + c.conjunction()
	}
	return out
}

// conjunction converts the terms of a class expression joined by an ampersand (&) or a dot. or & between them.
func (c *conditionConverter) conjunction() string {
	out := c.term()
	for c.err == nil && c.accept("&&", "&", ".") {
		out += " && " + c.term()
	}
	return out
}

// maxNesting bounds the nesting of a condition.
const maxNesting = 50

// term converts one part of a Rudder condition, such as a class or a negation. A term is a negation, an expression in
// parentheses, or one class.
func (c *conditionConverter) term() string {
	if c.depth++; c.depth > maxNesting {
		c.fail("nested too deeply")
	}
	defer func() { c.depth-- }()
	switch {
	case c.err != nil:
		return ""
	case c.accept("!"):
		return "!" + c.term()
	case c.accept("("):
		out := c.alternatives()
		if !c.accept(")") {
			c.fail(c.rest)
		}
		return "(" + out + ")"
	}
	end := strings.IndexFunc(c.rest, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if end < 0 {
		end = len(c.rest)
	}
	word := c.rest[:end]
	if c.rest = c.rest[end:]; word == "" {
		c.fail(c.rest)
		return ""
	}
	if out := systems[word]; out != "" {
		return out
	}
	name, version, _ := strings.Cut(word, "_")
	if pattern := versions[name]; pattern != nil && pattern.MatchString(version) {
		return fmt.Sprintf(`(%s && facts["distributionVersion"] == %q)`, isDistribution(name), strings.ReplaceAll(version, "_", "."))
	}
	if distribution := majors[name]; distribution != "" && isNumber.MatchString(version) {
		return fmt.Sprintf(`(%s && facts["distributionVersion"].startsWith(%q))`, isDistribution(distribution), version+".")
	}
	for _, before := range c.technique.before {
		if ending, ok := strings.CutPrefix(word, before.prefix+"_"); ok && results[ending] != "" {
			return fmt.Sprintf(results[ending], strconv.Quote(before.name))
		}
	}
	c.fail(word)
	return ""
}
