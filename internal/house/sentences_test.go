package house

import (
	"regexp"
	"strings"
	"testing"
)

// maxWords is the most words of a first sentence. Readers of samples had to read most longer ones twice.
const maxWords = 18

var (
	quoted        = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")
	secondThought = regexp.MustCompile(`[:;](\s|$)`)
	relative      = regexp.MustCompile(`\b(that|which|whose|who)\b`)
	pronoun       = regexp.MustCompile(`\b(it|this|they|them|ones|there|these|those)\b`)
)

// TestFirstSentences fails if the first sentence of a type's or function's comment is hard to read at once.
// A first sentence has one thought, and details follow in sentences of their own.
func TestFirstSentences(t *testing.T) {
	for _, f := range goFiles(t) {
		if exemptFromWords(f.path) {
			continue
		}
		for _, d := range declarations(f) {
			if fault := sentenceFault(d.sentence); fault != "" {
				t.Errorf("%s: the first sentence of the comment %s: %s", f.path, fault, d.sentence)
			}
		}
	}
}

// sentenceFault returns the reason for which a first sentence is hard to read, or "".
func sentenceFault(sentence string) string {
	words := strings.Fields(sentence)
	if len(words) == 0 {
		return ""
	}
	plain := quoted.ReplaceAllString(strings.Join(words[1:], " "), "")
	switch {
	case len(words) > maxWords:
		return "has more than 18 words"
	case secondThought.MatchString(plain):
		return "has a colon or a semicolon"
	case len(relative.FindAllString(plain, 2)) > 1:
		return "has two relative clauses"
	case pronoun.MatchString(plain):
		return `has a pronoun such as "it": name the thing`
	}
	return ""
}

// TestSentenceFault compares the faults of known sentences.
func TestSentenceFault(t *testing.T) {
	for sentence, want := range map[string]string{
		"Close closes the file":                                      "",
		"Close closes the file; a second call does nothing":          "semicolon",
		"Close closes it":                                            "pronoun",
		`Close writes "it is closed: done" to the log`:               "",
		"find returns the node that has the label that a rule names": "relative",
		strings.Repeat("word ", 19):                                  "words",
	} {
		if got := sentenceFault(sentence); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: fault %q, expected one with %q", sentence, got, want)
		}
	}
}
