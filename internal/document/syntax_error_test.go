package document

import (
	"strings"
	"testing"
)

// What is no YAML says why in words, with its place, and what to write.
func TestWhatIsNoYAML(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"tab":               {"kind: Check\nspec:\n\tinterval: 30s\n", "f.yaml:3:1: not YAML: this line is indented with a TAB; indent with spaces"},
		"tab behind spaces": {"kind: Check\nspec:\n  interval: 30s\n \tcommand: date\n", "f.yaml:4:2: not YAML: this line is indented with a TAB; indent with spaces"},
		"tab, second":       {"kind: Check\n---\nkind: Check\nspec:\n\tinterval: 30s\n", "f.yaml:5:1: not YAML: this line is indented with a TAB; indent with spaces"},
		"special":           {"kind: @x\n", "f.yaml:1:7: not YAML: found character that cannot start any token; quote text that begins with a special character"},
		"open quote":        {"kind: Check\nspec:\n  command: \"date\n  interval: 30s\n", "f.yaml:3:12: not YAML: the quote that begins here has no end; add the missing quote"},
		"open bracket":      {"kind: Check\nspec: {command: date\ninterval: 30s\n", "f.yaml:3:9: not YAML: did not find expected ',' or '}'; look at quotes"},
		"program":           {"kind: Check\nx: \x7fELF\x02\n", "f.yaml:2:4: not text: "},
		"latin-1":           {"kind: Check\nmetadata: {displayName: M\xfcnchen}\n", "f.yaml:2:26: not text: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader("f.yaml")
			r.Documents([]byte(c.text))
			err := r.Flaws.Err()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}
