package shard

import (
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
)

// Whatever the bytes, Restore fills the partition or leaves it empty with an error.
func FuzzRestoreSections(f *testing.F) {
	s, _ := countShard()
	for _, c := range countCommits(f) {
		if err := s.Apply(c); err != nil {
			f.Fatal(err)
		}
		body, _ := s.Snapshot(1, nil)
		f.Add(body)
	}
	f.Add(EmptySnapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _ := countShard()
		if err := s.Restore(1, journal.Position{Log: 1, Number: 1}, data); err != nil {
			if s.Nodes() != 0 || len(s.Partition(1).tombstones) != 0 {
				t.Fatalf("%d nodes after %v", s.Nodes(), err)
			}
			return
		}
		again, _ := countShard()
		body, _ := s.Snapshot(1, nil)
		if err := again.Restore(1, journal.Position{}, body); err != nil || again.Hash(1) != s.Hash(1) {
			t.Fatalf("a snapshot of what was restored is another: %v", err)
		}
	})
}
