package sensuctl

import (
	"errors"
	"strings"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
)

// withCommand puts a command of Muster into the hint of a guarded operation: sensuctl has neither --yes nor --dry-run,
// which the API's hint names.
func withCommand(err error, command string) error {
	var e *model.Error
	if !errors.As(err, &e) || e.Class != model.Guarded {
		return err
	}
	copied := *e
	return copied.WithHint("sensuctl has no --yes; look at it, then type: %s", command)
}

// applyCommand applies the file of sensuctl create.
const applyCommand = "muster import sensu FILE --out muster.yaml; muster plan -f muster.yaml; muster apply -f muster.yaml --yes"

func deleteCommand(ref v1.Ref) string {
	words := []string{"muster delete", strings.ToLower(ref.Kind), shellWord(ref.Name)}
	return strings.Join(append(words, namespaceFlags(ref.Namespace, "--yes")...), " ")
}

// silenceCommand returns the command that makes the same silence.
func silenceCommand(namespace string, s *model.SilenceSpec) string {
	words := []string{"muster silence"}
	if s.Targets != nil {
		for _, node := range s.Targets.Nodes {
			words = append(words, shellWord(node))
		}
		for _, group := range s.Targets.Groups {
			words = append(words, "--group", shellWord(group))
		}
	}
	for _, check := range s.Checks {
		words = append(words, "--check", shellWord(check))
	}
	if s.Targets == nil && len(s.Checks) == 0 {
		words = append(words, "--all")
	}
	if !s.Begin.IsZero() {
		words = append(words, "--from", s.Begin.UTC().Format(time.RFC3339))
	}
	if !s.Until.IsZero() {
		words = append(words, "--until", s.Until.UTC().Format(time.RFC3339))
	}
	if s.UntilResolved {
		words = append(words, "--until-resolved")
	}
	if s.Until.IsZero() && !s.UntilResolved {
		words = append(words, "--forever")
	}
	words = append(words, "-m", shellWord(s.Reason))
	return strings.Join(append(words, namespaceFlags(namespace, "--yes")...), " ")
}

func namespaceFlags(namespace string, more ...string) []string {
	if namespace == "" || namespace == model.DefaultNamespaceName {
		return more
	}
	return append([]string{"-n", shellWord(namespace)}, more...)
}

// shellWord quotes an argument of a shell where it has to be.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	if text != "" && text[0] != '-' && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
