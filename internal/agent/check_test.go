package agent

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// A command reads what its check gives it, with the node's properties in it and nothing of
// a shell.
func TestStdinOfACheck(t *testing.T) {
	s := newServer(t)
	given, missing := shell(1, "", time.Hour), shell(2, "cat", time.Hour)
	given.Command = &model.Command{Argv: []string{"cat"}}
	given.Stdin, missing.Stdin = "SELECT {{ .props.table }}; -- $HOME `id`\n", "{{ .props.unset }}"
	s.assign([]wire.Property{{Name: "table", Value: []byte(`"jobs"`)}}, given, missing)
	begin(t, config(s, t.TempDir()))
	s.wait("both results", func() bool { return len(s.of(1)) == 1 && len(s.of(2)) == 1 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.of(1)[0]; r.Status != model.OK || string(r.Output) != "SELECT jobs; -- $HOME `id`" {
		t.Errorf("%s %q", r.Status, r.Output)
	}
	if r := s.of(2)[0]; r.Status != model.Unknown {
		t.Errorf("%s %q", r.Status, r.Output)
	}
}
