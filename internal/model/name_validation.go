package model

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// NameError returns an error if a text is no valid resource name, or nil.
func NameError(text string) error {
	if text == "" {
		return fmt.Errorf("the name is missing")
	}
	if CleanName(text) == text {
		return nil
	}
	if len(text) > MaxName {
		return fmt.Errorf("the name is longer than %d characters", MaxName)
	}
	return fmt.Errorf("invalid name %q: use lower-case letters, digits, and . _ - between them", text)
}

// CleanName converts a text to a valid resource name. Invalid characters become dashes. It returns "" if no valid
// character is left.
func CleanName(text string) string {
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, text)
	if len(clean) > MaxName {
		clean = clean[:MaxName]
	}
	return strings.Trim(clean, "._-")
}

// EntityName returns the name of a node's Sensu entity in the original spelling, possibly with capitals.
func EntityName(meta Metadata, spec *NodeSpec) string {
	for _, original := range [...]string{spec.Facts["sensuEntity"], meta.DisplayName} {
		if CleanName(original) == meta.Name {
			return original
		}
	}
	return meta.Name
}

// LabelError returns the fault in a label, or nil for a valid label.
func LabelError(key, value string) error {
	switch {
	case !IsLabelName(key):
		return fmt.Errorf("invalid label name %q: use letters, digits, and . _ - / between them, at most %d", Shorten(key), MaxText)
	case len(value) > MaxText || HasControl(value):
		return fmt.Errorf("label %s: expected one line of at most %d bytes", key, MaxText)
	}
	return nil
}

// IsLabelName reports whether a text is a valid name of a label or annotation.
func IsLabelName(name string) bool {
	if name == "" || len(name) > MaxText {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isLetterOrDigit(c) && (i == 0 || i == len(name)-1 || strings.IndexByte("._-/", c) < 0) {
			return false
		}
	}
	return true
}

// isLetterOrDigit reports whether a byte is an ASCII letter or digit.
func isLetterOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// LabelValue returns a text as a value of a label, in one line of at most MaxText bytes.
func LabelValue(text string) string {
	line := strings.FieldsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f })
	return Truncate(strings.Join(line, " "), MaxText)
}

// HasControl reports whether a text contains a control character, such as a line break.
func HasControl(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// NoteError returns an error if a person's note has a line break or another control character. Lists show notes as one
// line.
func NoteError(note string) error {
	if HasControl(note) {
		return Errorf(Invalid, "the note contains a line break or another control character").WithHint("write it in one line")
	}
	return nil
}

// SplitRef splits a reference into namespace and name. A plain NAME is in the given namespace.
func SplitRef(namespace, ref string) (ns, name string) {
	if ns, name, ok := CutRef(ref); ok {
		return ns, name
	}
	return namespace, ref
}

// CutRef splits a reference NAMESPACE/NAME into namespace and name. Behind a colon begins the name of a trigger, which
// may have slashes of its own: TEMPLATE:TRIGGER.
func CutRef(ref string) (before, after string, found bool) {
	names, _, _ := strings.Cut(ref, ":")
	if before, _, found = strings.Cut(names, "/"); !found {
		return ref, "", false
	}
	return before, ref[len(before)+1:], true
}

// QualifyRef converts a reference NAME of a resource in a namespace to NAMESPACE/NAME.
func QualifyRef(namespace, ref string) string {
	ns, name := SplitRef(namespace, ref)
	return ns + "/" + name
}

// Nearest returns the candidate most similar to a misspelt word, for hints. If no candidate is near enough, it returns
// an empty text. Words over maxTyped bytes are never typing errors.
func Nearest(word string, candidates []string) string {
	if len(word) > maxTyped {
		return ""
	}
	best, bestDistance := "", len(word)/3+2
	for _, c := range candidates {
		if len(c)-len(word) >= bestDistance || len(word)-len(c) >= bestDistance {
			continue // the difference in length is a lower bound of the distance
		}
		if d := editDistance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// maxTyped bounds a typed word, in bytes.
const maxTyped = 100

// editDistance returns how many typing errors (insertions, deletions, substitutions, exchanges) separate two words
func editDistance(a, b string) int {
	row, above := make([]int, len(b)+1), make([]int, len(b)+1) // above: the row two rows before the new one
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := above
		above = append([]int(nil), row...)
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, 1+before[j-1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// CheckHostPort returns an error if a text is not a valid address HOST:PORT, or nil. HOST is a name, an IPv4
// address or an IPv6 address in brackets.
func CheckHostPort(text string) error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "server address "+format, args...).WithHint("write HOST:PORT: muster.example.org:8443, 10.0.0.7:8443 or [fd00::7]:8443")
	}
	if rest, ok := strings.CutPrefix(text, "https://"); ok {
		return bad("%q: agents do not use HTTP, write %s", text, strings.TrimRight(rest, "/"))
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		switch {
		case host == "":
			return bad("%q has no host", text)
		case strings.ContainsAny(host, "/ ,@[]"):
			return bad("%q: invalid host %q", text, host)
		case !isPort(port):
			return bad("%q: invalid port %q", text, port)
		}
		return nil
	}
	at := strings.LastIndexByte(text, ':')
	switch bare := strings.Trim(text, "[]"); {
	case text == "" || strings.ContainsAny(text, "/ ,@"):
		return bad("%q cannot be read", text)
	case at < 0:
		return bad("%q has no port: write %s:8443", text, text)
	case strings.HasPrefix(text, "["):
		return bad("%q has no port: write [%s]:8443", text, bare)
	case isIP(text) && isIP(text[:at]) && isPort(text[at+1:]):
		return bad("%q is ambiguous: with a port, write [%s]:%s; without a port, write [%s]:8443", text, text[:at], text[at+1:], text)
	case isIP(text):
		return bad("%q has no port: write [%s]:8443", text, text)
	}
	return bad("%q: an IPv6 address needs brackets, write [%s]:%s", text, text[:at], text[at+1:])
}

// HostOf returns the host of an address HOST:PORT, or an address without a port unchanged. A text without a
// port is the host.
func HostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// ParseNetworks parses a list of addresses and networks. A single address becomes a network of one address. A network
// of all addresses is an error.
func ParseNetworks(words []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, word := range words {
		if address, err := netip.ParseAddr(word); err == nil && address.Zone() == "" {
			address = address.Unmap()
			list = append(list, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(word)
		if err != nil {
			return nil, fmt.Errorf("%q: expected addresses or networks such as 10.0.0.7, 10.0.0.0/24 or fd00::/64", word)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("%q would make the server trust every client: list only addresses of trusted clients", word)
		}
		list = append(list, network.Masked())
	}
	return list, nil
}

// isIP reports whether a text is an IP address.
func isIP(text string) bool { _, err := netip.ParseAddr(text); return err == nil }

// isPort reports whether a text is a port number.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// ShellWord quotes an argument of a shell command if its characters need quotes.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	if text != "" && text[0] != '-' && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
