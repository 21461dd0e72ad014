package cli

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// keptNotes says, once for each file, that something in it is kept from Sensu.
func keptNotes(docs []document) (notes []string) {
	in, of := map[string][]string{}, []string{}
	for _, d := range docs {
		what, kept := model.KeptFromSensu(&d.located.Resource)
		if !kept {
			continue
		}
		if len(in[d.located.File]) == 0 {
			of = append(of, d.located.File)
		}
		if !strings.Contains(strings.Join(in[d.located.File], ", "), what) {
			in[d.located.File] = append(in[d.located.File], what)
		}
	}
	for _, file := range of {
		notes = append(notes, fmt.Sprintf("%s: kept from Sensu: %s. It runs as it is; who is told of what is what a Route says in Muster (%s)",
			file, strings.Join(in[file], ", "), model.KeptPage))
	}
	return notes
}

// passes says in words what a filter does.
func passes(s *model.FilterSpec) string {
	word := map[string]string{"allow": "what is all of: ", "deny": "what is none of: "}[s.Action]
	if s.When != nil {
		word = "at certain times " + word
	}
	var parts []string
	for _, e := range s.Expressions {
		parts = append(parts, strings.Join(strings.Fields(e), " "))
	}
	return word + strings.Join(parts, "; ")
}

func mutates(s *model.MutatorSpec) string {
	if s.Command != nil {
		return commandText(s.Command)
	}
	return "JavaScript: " + strings.Join(strings.Fields(s.Javascript), " ")
}

// flows says in words what a pipeline does.
func flows(s *model.PipelineSpec) string {
	var parts []string
	for i := range s.Workflows {
		w := &s.Workflows[i]
		steps := append([]string{}, w.Filters...)
		if w.Mutator != "" {
			steps = append(steps, w.Mutator)
		}
		parts = append(parts, w.Name+": "+strings.Join(append(steps, w.Handler), " > "))
	}
	return strings.Join(parts, "; ")
}
