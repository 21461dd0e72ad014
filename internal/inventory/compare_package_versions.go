package inventory

import (
	"cmp"
	"strings"
)

// Package managers, as the field manager of a package names them.
const (
	Deb = "deb"
	RPM = "rpm"
	APK = "apk"
)

// CompareVersions compares two versions of a package by the rules of a package manager. A negative order means that a
// is older. ok is false for a manager without rules.
func CompareVersions(manager, a, b string) (order int, ok bool) {
	switch manager {
	case Deb:
		return compareDeb(a, b), true
	case RPM:
		return compareRPM(a, b), true
	case APK:
		return compareAPK(a, b), true
	}
	return 0, false
}

// compareDeb compares Debian package versions by epoch, upstream version and revision, as in deb-version(7).
func compareDeb(a, b string) int {
	epochA, a := cutEpoch(a)
	epochB, b := cutEpoch(b)
	upstreamA, revisionA := cutLast(a)
	upstreamB, revisionB := cutLast(b)
	return cmp.Or(compareNumbers(epochA, epochB), compareDebPart(upstreamA, upstreamB), compareDebPart(revisionA, revisionB))
}

// cutEpoch splits a version at its first colon into epoch and rest.
func cutEpoch(v string) (epoch, rest string) {
	if epoch, rest, ok := strings.Cut(v, ":"); ok {
		return epoch, rest
	}
	return "", v
}

// cutLast splits a Debian version at its last hyphen into upstream version and revision.
func cutLast(v string) (version, revision string) {
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

// compareDebPart compares upstream versions or revisions in the order of dpkg. It compares other characters and
// numbers in turn. In texts a tilde sorts before the end, and letters before other characters.
func compareDebPart(a, b string) int {
	for a != "" || b != "" {
		for a != "" && !isDigit(a[0]) || b != "" && !isDigit(b[0]) {
			if order := cmp.Compare(debWeight(a), debWeight(b)); order != 0 {
				return order
			}
			a, b = a[1:], b[1:]
		}
		var x, y string
		x, a = cutDigits(a)
		y, b = cutDigits(b)
		if order := compareNumbers(x, y); order != 0 {
			return order
		}
	}
	return 0
}

// debWeight returns a number by which the first character of a version sorts in dpkg's order. A digit counts like the
// end of the text.
func debWeight(s string) int {
	switch {
	case s == "" || isDigit(s[0]):
		return 0
	case s[0] == '~':
		return -1
	case isLetter(s[0]):
		return int(s[0])
	}
	return int(s[0]) + 256
}

// compareRPM compares versions by epoch, version and release, as rpm does.
func compareRPM(a, b string) int {
	epochA, a := cutEpoch(a)
	epochB, b := cutEpoch(b)
	versionA, releaseA := cutLast(a)
	versionB, releaseB := cutLast(b)
	return cmp.Or(compareNumbers(epochA, epochB), compareRPMPart(versionA, versionB), compareRPMPart(releaseA, releaseB))
}

// compareRPMPart compares two versions or two releases in rpm's order. It compares segments of letters or digits in
// turn; other characters separate the segments. A tilde sorts before the end, and a caret behind the end but before
// all other characters.
func compareRPMPart(a, b string) int {
	separators := func(r rune) bool { return r > 0x7f || !isDigit(byte(r)) && !isLetter(byte(r)) && r != '~' && r != '^' }
	for a != "" || b != "" {
		a, b = strings.TrimLeftFunc(a, separators), strings.TrimLeftFunc(b, separators)
		switch {
		case hasFirst(a, '~') && hasFirst(b, '~'), hasFirst(a, '^') && hasFirst(b, '^'):
			a, b = a[1:], b[1:]
			continue
		case hasFirst(a, '~'):
			return -1
		case hasFirst(b, '~'):
			return 1
		case hasFirst(a, '^'):
			return caretOrder(b)
		case hasFirst(b, '^'):
			return -caretOrder(a)
		}
		if a == "" || b == "" {
			break
		}
		var x, y string
		if isDigit(a[0]) {
			x, a = cutDigits(a)
			y, b = cutDigits(b)
			if y == "" {
				return 1 // a number is newer than letters
			}
			if order := compareNumbers(x, y); order != 0 {
				return order
			}
			continue
		}
		x, a = cutLetters(a)
		y, b = cutLetters(b)
		if y == "" {
			return -1
		}
		if order := strings.Compare(x, y); order != 0 {
			return order
		}
	}
	return cmp.Compare(min(len(a), 1), min(len(b), 1))
}

// caretOrder compares two rpm versions after their common beginning, if only the first continues with the
// character ^. The parameter other is the rest of the other version.
func caretOrder(other string) int {
	if other == "" {
		return 1
	}
	return -1
}

// apkPart is the kind of one part of an apk version, such as number or suffix.
type apkPart int

const (
	apkFraction apkPart = iota // a number behind a dot
	apkNumber
	apkLetter
	apkSuffix
	apkSuffixNumber
	apkHash
	apkRevision
	apkEnd
	apkInvalid
)

// apkBefore and apkAfter are the suffixes of versions before and after the release, ascending.
var (
	apkBefore = [...]string{"alpha", "beta", "pre", "rc"}
	apkAfter  = [...]string{"cvs", "svn", "git", "hg", "p"}
)

// apkReader reads the parts of a version of the package manager apk, one by one.
type apkReader struct {
	rest string
	kind apkPart
	text string // of the part
	rank int    // of a suffix, or of leading zeros
}

// next reads the next part of the apk version.
func (r *apkReader) next() {
	from := r.kind
	r.text, r.rank = "", 0
	number := func(kind apkPart) {
		if r.text, r.rest = cutDigits(r.rest); r.text == "" {
			kind = apkInvalid
		}
		r.kind = kind
	}
	switch {
	case from == apkInvalid || from == apkEnd:
	case r.rest == "":
		r.kind = apkEnd
	case from == apkSuffix && isDigit(r.rest[0]):
		number(apkSuffixNumber)
	case from <= apkNumber && 'a' <= r.rest[0] && r.rest[0] <= 'z':
		r.kind, r.text, r.rest = apkLetter, r.rest[:1], r.rest[1:]
	case from <= apkNumber && r.rest[0] == '.':
		r.rest = r.rest[1:]
		number(apkFraction)
	case from < apkHash && r.rest[0] == '_':
		r.kind, r.rest = apkInvalid, r.rest[1:]
		r.readSuffix()
	case from < apkHash && r.rest[0] == '~':
		hash := strings.TrimLeft(r.rest[1:], "0123456789abcdef")
		r.kind, r.text, r.rest = apkHash, r.rest[1:len(r.rest)-len(hash)], hash
	case from < apkRevision && strings.HasPrefix(r.rest, "-r"):
		r.rest = r.rest[2:]
		number(apkRevision)
	default:
		r.kind = apkInvalid
	}
}

// readSuffix reads the name of a suffix of an apk version, such as rc.
func (r *apkReader) readSuffix() {
	for i, name := range apkBefore {
		if rest, ok := strings.CutPrefix(r.rest, name); ok {
			r.kind, r.rank, r.rest = apkSuffix, i-len(apkBefore), rest
			return
		}
	}
	for i, name := range apkAfter {
		if rest, ok := strings.CutPrefix(r.rest, name); ok {
			r.kind, r.rank, r.rest = apkSuffix, i, rest
			return
		}
	}
}

// compareAPK compares versions in the order of the package manager apk. It compares numbers, a letter, suffixes such
// as _rc1, a hash, and the revision.
func compareAPK(a, b string) int {
	x, y := apkReader{rest: a}, apkReader{rest: b}
	x.text, x.rest = cutDigits(a)
	y.text, y.rest = cutDigits(b)
	x.kind, y.kind = apkNumber, apkNumber
	for {
		if order := compareAPKPart(&x, &y); order != 0 || x.kind != y.kind {
			break
		}
		if x.kind >= apkEnd {
			return 0
		}
		x.next()
		y.next()
	}
	switch {
	case x.kind == y.kind:
		return compareAPKPart(&x, &y)
	case x.kind == apkSuffix && x.rank < 0:
		return -1
	case y.kind == apkSuffix && y.rank < 0:
		return 1
	}
	return cmp.Compare(y.kind, x.kind) // the version with another part is newer
}

// compareAPKPart compares two parts of apk versions that have the same kind.
func compareAPKPart(x, y *apkReader) int {
	switch {
	case x.kind != y.kind:
		return 0
	case x.kind == apkSuffix:
		return cmp.Compare(x.rank, y.rank)
	case x.kind == apkFraction && (hasFirst(x.text, '0') || hasFirst(y.text, '0')):
		return strings.Compare(x.text, y.text) // a fraction with a leading zero compares as text: 1.05 is older than 1.5
	case x.kind == apkLetter || x.kind == apkHash:
		return strings.Compare(x.text, y.text)
	}
	return compareNumbers(x.text, y.text)
}

// compareNumbers compares decimal numbers of any length. An empty number is zero.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// cutDigits splits off the digits at the start of a text.
func cutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// cutLetters splits off the letters at the start of a text.
func cutLetters(s string) (letters, rest string) {
	n := 0
	for n < len(s) && isLetter(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// hasFirst reports whether a text begins with the byte c.
func hasFirst(s string, c byte) bool { return s != "" && s[0] == c }

// isDigit reports whether a byte is an ASCII digit.
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isLetter reports whether a byte is an ASCII letter.
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
