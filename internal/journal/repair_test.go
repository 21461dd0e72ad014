package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
)

// TestRepairOfManyDamages changes, cuts and removes at many places at once. Repair
// must make a log that opens, goes on, has nothing that was never written, and keeps
// every entry whose commit is not named as lost.
func TestRepairOfManyDamages(t *testing.T) {
	w := write(t)
	rapid.Check(t, func(r *rapid.T) {
		files := map[string][]byte{}
		for name, data := range w.files {
			files[name] = slices.Clone(data)
		}
		for range rapid.IntRange(1, 6).Draw(r, "damages") {
			name := rapid.SampledFrom(w.names).Draw(r, "file")
			data := files[name]
			if len(data) == 0 {
				continue
			}
			at := rapid.IntRange(0, len(data)-1).Draw(r, "offset")
			switch rapid.SampledFrom([]string{"flip", "flip", "zero", "truncate", "remove", "duplicate"}).Draw(r, "how") {
			case "flip":
				data[at] ^= 0x10
			case "zero":
				clear(data[at:min(at+200, len(data))])
			case "truncate":
				files[name] = data[:at]
			case "remove":
				delete(files, name)
			case "duplicate":
				files[name] = slices.Concat(data[:at], data[at/2:])
			}
		}
		damaged := written{files: files}
		fs := damaged.with(t, "", nil)
		o := logOptions
		o.FS = fs
		losses, err := journal.Repair("/j", o)
		if err != nil {
			r.Fatalf("repair: %v", err)
		}
		l, err := journal.Open("/j", o)
		if err != nil {
			r.Fatalf("opened after repair with losses %v: %v", losses, err)
		}
		defer l.Close()
		tail := l.Tail()
		tail.Number--
		got := journaltest.Contents(t, l, tail)
		for i, entry := range got {
			if !slices.Contains(w.entries, entry) {
				r.Fatalf("entry %q was never written", entry)
			}
			if i > 0 && slices.Index(w.entries, got[i-1]) >= slices.Index(w.entries, entry) {
				r.Fatalf("entry %q is out of order", entry)
			}
		}
		for _, entry := range w.entries {
			var number uint64
			_, _ = fmt.Sscanf(entry, "%d/", &number)
			lost := number <= tail.Number || number > l.Head().Number || slices.ContainsFunc(losses, func(loss journal.Loss) bool {
				return loss.First <= number && number <= loss.Last
			})
			if lost == slices.Contains(got, entry) {
				r.Fatalf("commit %d: named as lost: %v, losses %v", number, lost, losses)
			}
		}
		a := journaltest.NewAcks()
		head := l.Head().Number
		add(t, l, a, 99)
		if at := a.Wait(1)[0].At.Number; at != head+1 {
			r.Fatalf("goes on at %d after %d", at, head)
		}
	})
}
