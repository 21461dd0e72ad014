package sensuctl

import (
	"errors"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// byHand says what to type where somebody has to confirm: sensuctl has neither --yes nor --dry-run, of
// which the API speaks.
func byHand(err error, command string) error {
	var said *model.Error
	if !errors.As(err, &said) || said.Class != model.Guarded {
		return err
	}
	with := *said
	return with.WithHint("sensuctl has no --yes; look at it, then type: %s", command)
}

// applyByHand is for what sensuctl create sends.
const applyByHand = "muster import sensu FILE --out muster.yaml; muster plan -f muster.yaml; muster apply -f muster.yaml --yes"

func deleteByHand(kind, namespace, name string) string {
	words := []string{"muster delete", strings.ToLower(kind), word(name)}
	return strings.Join(append(words, inNamespace(namespace, "--yes")...), " ")
}

// silenceByHand is the command that makes the same silence.
func silenceByHand(namespace string, s *model.SilenceSpec) string {
	words := []string{"muster silence"}
	if s.Targets != nil {
		for _, node := range s.Targets.Nodes {
			words = append(words, word(node))
		}
		for _, group := range s.Targets.Groups {
			words = append(words, "--group", word(group))
		}
	}
	for _, check := range s.Checks {
		words = append(words, "--check", word(check))
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
	words = append(words, "-m", word(s.Reason))
	return strings.Join(append(words, inNamespace(namespace, "--yes")...), " ")
}

func inNamespace(namespace string, more ...string) []string {
	if namespace == "" || namespace == model.DefaultNamespaceName {
		return more
	}
	return append([]string{"-n", word(namespace)}, more...)
}

// word is one argument to a shell.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
	}
	if text != "" && text[0] != '-' && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
