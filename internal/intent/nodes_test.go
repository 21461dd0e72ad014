package intent

import (
	"testing"

	"github.com/google/uuid"
)

// A fleet that comes back says what it said before: nothing of it waits to be
// written, and the store is not asked.
func TestWhatIsOnRecordIsNotWrittenAgain(t *testing.T) {
	facts, labels := map[string]string{"os": "linux", "arch": "amd64"}, map[string]string{"env": "prod"}
	info := NodeInfo{UID: uuid.New(), Name: "web01", Namespace: "default", said: fingerprint(facts, labels)}
	s := &Service{nodes: newNodeIndex()}
	s.nodes.byUID[info.UID] = info
	for _, c := range []struct {
		what          string
		facts, labels map[string]string
		waiting       int
	}{
		{"the same", facts, labels, 0},
		{"another value", map[string]string{"os": "linux", "arch": "arm64"}, labels, 1},
		{"the same after all", facts, labels, 0},
		{"one fact less", map[string]string{"os": "linux"}, labels, 1},
		{"a label for a fact", map[string]string{"os": "linux", "arch": "amd64", "env": "prod"}, nil, 1},
		{"value and name moved", map[string]string{"os": "linux", "archa": "md64"}, labels, 1},
		{"no labels", facts, nil, 1},
	} {
		s.SeenNode(info, c.facts, c.labels)
		if len(s.nodes.seen) != c.waiting {
			t.Errorf("%s: %d nodes wait to be written, want %d", c.what, len(s.nodes.seen), c.waiting)
		}
	}
}
