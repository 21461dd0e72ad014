package prep

import (
	"regexp"
	"strings"
)

// lastSibling matches NAME[last()], with the characters around it.
var lastSibling = regexp.MustCompile(`(^|/)([\pL_][\pL\pN_.-]*(?::[\pL_][\pL\pN_.-]*)?|\*)\[\s*last\(\s*\)\s*\](\s*(?:$|[^\s\[]))`)

// replaceLast replaces NAME[last()] in an XPath expression by NAME[not(following-sibling::NAME)]. Both select the same
// elements, but package xpath counts all siblings for each last(), so that a long list takes the square of its length.
func replaceLast(source string) string {
	var b strings.Builder
	for source != "" {
		end := strings.IndexAny(source, `"'`)
		if end < 0 {
			end = len(source)
		}
		part := source[:end]
		for range 2 { // the matches of neighbours overlap
			part = lastSibling.ReplaceAllString(part, "$1$2[not(following-sibling::$2)]$3")
		}
		b.WriteString(part)
		source = source[end:]
		if source == "" {
			break
		}
		closing := strings.IndexByte(source[1:], source[0]) // of a text in quotes, which stays as it is
		if closing < 0 {
			closing = len(source) - 2
		}
		b.WriteString(source[:closing+2])
		source = source[closing+2:]
	}
	return b.String()
}
