package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/journal/journaltest"
	"github.com/muster-fleet/muster/internal/journal/memfs"
)

// writtenLog has the files and entries of a small log for tests to damage.
type writtenLog struct {
	files   map[string][]byte
	names   []string // of the segments
	entries []string
	head    uint64
}

var smallSegmentOptions = journal.Options{Tick: -1, Reserve: -1, SegmentSize: 1000}

// writeSmallLog writes a log of about three segments and returns its files and entries.
func writeSmallLog(t *testing.T) writtenLog {
	t.Helper()
	fs := memfs.New()
	o := smallSegmentOptions
	o.FS = fs
	l := openTestLog(t, "/j", o)
	a := journaltest.NewAcks()
	for i := range 30 {
		if err := l.Append(context.Background(), journal.Entry{Section: 1, Data: numberedEntry(i), Waiter: a}); err != nil {
			t.Fatal(err)
		}
		a.Wait(i + 1)
	}
	w := writtenLog{files: map[string][]byte{}, entries: journaltest.ReadEntryTexts(t, l, journal.Position{}), head: l.Head().Number}
	// The files are copied before Close, because Close would add an empty commit.
	w.names, w.files = readJournalFiles(t, fs)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(w.names) < 3 {
		t.Fatalf("only %d segments", len(w.names))
	}
	return w
}

// readJournalFiles returns the contents of the journal's files, and the names of its segments.
func readJournalFiles(t *testing.T, fs disk.FS) (segments []string, files map[string][]byte) {
	t.Helper()
	files = map[string][]byte{}
	names, err := fs.List("/j")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == "LOCK" {
			continue
		}
		data, err := disk.ReadFile(fs, filepath.Join("/j", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
		if strings.HasSuffix(name, ".log") {
			segments = append(segments, name)
		}
	}
	return segments, files
}

// withChangedFile returns a copy of the log's files in which one file is changed or removed. Nil content removes the
// file.
func (w writtenLog) withChangedFile(t *testing.T, name string, data []byte) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	_ = fs.MkdirAll("/j")
	for n, b := range w.files {
		if n == name {
			b = data
		}
		if b == nil {
			continue
		}
		if err := disk.WriteFile(fs, "/j", n, b); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// openWithChangedFile opens the log with one changed file.
func (w writtenLog) openWithChangedFile(t *testing.T, name string, data []byte) (*journal.Log, *memfs.FS, error) {
	t.Helper()
	fs := w.withChangedFile(t, name, data)
	o := smallSegmentOptions
	o.FS = fs
	l, err := journal.Open("/j", o)
	return l, fs, err
}

// lastCommitOffset returns the name of the last segment file, and the last commit's offset in the file.
func (w writtenLog) lastCommitOffset(t *testing.T) (name string, offset int) {
	t.Helper()
	name = w.names[len(w.names)-1]
	data := w.files[name]
	for cut := len(data) - 1; ; cut-- {
		l, _, err := w.openWithChangedFile(t, name, data[:cut])
		if err != nil {
			t.Fatal(err)
		}
		torn := l.Stats().TornCommits
		_ = l.Close()
		if torn == 0 {
			return name, cut
		}
	}
}

// TestIncompleteLastCommitIsRemoved damages the last commit at each byte, and expects Open to remove the commit. The
// commit is counted, and the log accepts new entries.
func TestIncompleteLastCommitIsRemoved(t *testing.T) {
	w := writeSmallLog(t)
	name, start := w.lastCommitOffset(t)
	data := w.files[name]
	check := func(what string, at int, changed []byte) {
		t.Helper()
		l, fs, err := w.openWithChangedFile(t, name, changed)
		if err != nil {
			t.Fatalf("%s at %d: %v", what, at, err)
		}
		if n := l.Stats().TornCommits; n != 1 {
			t.Fatalf("%s at %d: %d torn commits", what, at, n)
		}
		if got := journaltest.ReadEntryTexts(t, l, journal.Position{}); !slices.Equal(got, w.entries[:len(w.entries)-1]) {
			t.Fatalf("%s at %d: %d entries", what, at, len(got))
		}
		a := journaltest.NewAcks()
		if err := l.Append(context.Background(), journal.Entry{Section: 1, Data: []byte("more"), Waiter: a}); err != nil {
			t.Fatal(err)
		}
		if at := a.Wait(1)[0].At.Number; at != w.head {
			t.Fatalf("%s: going on at %d, want %d", what, at, w.head)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		// What was cut stays cut.
		o := smallSegmentOptions
		o.FS = fs
		l = openTestLog(t, "/j", o)
		if n := len(journaltest.ReadEntryTexts(t, l, journal.Position{})); n != len(w.entries) || l.Stats().TornCommits != 0 {
			t.Fatalf("%s at %d: %d entries when opened again", what, at, n)
		}
		_ = l.Close()
	}
	for at := start; at < len(data); at++ {
		if at > start {
			check("truncated", at, data[:at])
		}
		flipped := slices.Clone(data)
		flipped[at] ^= 1 << (at % 8)
		check("flipped", at, flipped)
	}
	check("zeros behind", start, append(slices.Clone(data[:start]), make([]byte, 700)...))
}

// TestDamagedEndOfClosedLogIsRefused damages the last commits of a closed log, and expects Open to return an
// error. Repair reports the lost commits and keeps all others, although no other store has recorded a position.
func TestDamagedEndOfClosedLogIsRefused(t *testing.T) {
	w := writeSmallLog(t)
	o := smallSegmentOptions
	o.FS = w.withChangedFile(t, "", nil)
	l := openTestLog(t, "/j", o)
	head := l.Head().Number
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w.names, w.files = readJournalFiles(t, o.FS)
	name := w.names[len(w.names)-1]
	data := w.files[name]
	zeros := slices.Clone(data)
	clear(zeros[len(zeros)*2/3:])
	for what, changed := range map[string][]byte{"zeros": zeros, "half": data[:len(data)/2], "header": data[:64], "last commit": data[:len(data)-1]} {
		_, fs, err := w.openWithChangedFile(t, name, changed)
		var damage *journal.DamageError
		if !errors.As(err, &damage) || damage.Last != head || damage.First > head {
			t.Errorf("%s: %v", what, err)
			continue
		}
		o.FS = fs
		losses, err := journal.Repair("/j", o)
		if err != nil || len(losses) != 1 || losses[0].First != damage.First || losses[0].Last != head {
			t.Errorf("%s: repair: %v, %v", what, losses, err)
		}
		l := openTestLog(t, "/j", o)
		if n := l.Head().Number; n < head {
			t.Errorf("%s: continues at commit %d, the log had %d", what, n, head)
		}
		_ = l.Close()
	}
}

// TestCloseKeepsFormatFileOfAnotherLog replaces the file FORMAT of an open log, and expects Close to leave the new
// file unchanged.
func TestCloseKeepsFormatFileOfAnotherLog(t *testing.T) {
	w := writeSmallLog(t)
	o := smallSegmentOptions
	fs := memfs.New()
	o.FS = fs
	l := openTestLog(t, "/j", o)
	a := journaltest.NewAcks()
	appendTestEntry(t, l, a, 0)
	a.Wait(1)
	if err := disk.WriteFile(fs, "/j", "FORMAT", w.files["FORMAT"]); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := disk.ReadFile(fs, "/j/FORMAT"); err != nil || string(left) != string(w.files["FORMAT"]) {
		t.Errorf("Close wrote %q, %v", left, err)
	}
}

// TestDamagedLogIsRefusedAndRepaired flips bits before the last commit, and expects Open to fail until Repair. The
// error names the repair command, and Repair loses only the reported commits.
func TestDamagedLogIsRefusedAndRepaired(t *testing.T) {
	w := writeSmallLog(t)
	last, start := w.lastCommitOffset(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range w.names {
		end := len(w.files[name])
		if name == last {
			end = start
		}
		for at := 0; at < end; at += 1 + rng.IntN(40) {
			changed := slices.Clone(w.files[name])
			changed[at] ^= 1 << rng.IntN(8)
			w.checkDamage(t, name, at, changed)
		}
	}
	for i, name := range w.names[:len(w.names)-1] {
		w.checkDamage(t, name, 0, w.files[name][:len(w.files[name])-10])
		if i > 0 {
			w.checkDamage(t, name, -1, nil) // the file is missing
		}
	}
}

// TestOpenVerifiesCommitsAboveSnapshot damages commits before and after a snapshot's position, and expects Open
// to report the later damage. Read reports the earlier damage. Open always verifies commits above the oldest
// snapshot.
func TestOpenVerifiesCommitsAboveSnapshot(t *testing.T) {
	w := writeSmallLog(t)
	l, _, err := w.openWithChangedFile(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	from := l.Head()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	covered := w.names[1]
	if _, err := fmt.Sscanf(w.names[2], "%d.log", &from.Number); err != nil {
		t.Fatal(err)
	}
	from.Number-- // the oldest snapshot has all up to the third segment
	for _, c := range []struct {
		file    string
		flip    int // byte; -1: the file is missing
		refused bool
	}{
		{"", 0, false},
		{covered, 100, false}, {covered, 20, false}, {covered, -1, false},
		{w.names[2], 100, true}, {w.names[2], 20, true},
	} {
		changed := slices.Clone(w.files[c.file])
		switch {
		case c.flip < 0:
			changed = nil
		case c.file != "":
			changed[c.flip] ^= 4
		}
		o := smallSegmentOptions
		o.FS, o.VerifyFrom = w.withChangedFile(t, c.file, changed), from
		l, err := journal.Open("/j", o)
		var damage *journal.DamageError
		if c.refused {
			if !errors.As(err, &damage) || filepath.Base(damage.File) != c.file {
				t.Errorf("%+v: opened with %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("case %+v: Open returns error %v", c, err)
			continue
		}
		read := func(from journal.Position) (n int, err error) {
			err = l.Read(context.Background(), from, func(c journal.Commit) error {
				return c.Entries(1, func([]byte) error { n++; return nil })
			})
			return n, err
		}
		if n, err := read(from); err != nil || n != len(w.entries)-int(from.Number) {
			t.Errorf("%+v: %d entries above the snapshot, %v", c, n, err)
		}
		if n, err := read(journal.Position{}); errors.As(err, &damage) != (c.file != "") || err == nil && n != len(w.entries) {
			t.Errorf("%+v: %d entries from the beginning, %v", c, n, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRepairRestoresFormatFile damages the file FORMAT of a journal folder, and expects Repair to restore the file.
// Open fails before. Repair takes the content from the segment headers.
func TestRepairRestoresFormatFile(t *testing.T) {
	w, other := writeSmallLog(t), writeSmallLog(t)
	whole, _, err := w.openWithChangedFile(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	known := []journal.Position{whole.Head()}
	_ = whole.Close()
	for _, changed := range [][]byte{nil, []byte("muster journal 1\n"), other.files["FORMAT"]} {
		_, fs, err := w.openWithChangedFile(t, "FORMAT", changed)
		var damage *journal.DamageError
		if !errors.As(err, &damage) {
			t.Fatalf("opened with %v", err)
		}
		o := smallSegmentOptions
		o.FS, o.KnownPositions = fs, known
		if losses, err := journal.Repair("/j", o); err != nil || !slices.Equal(losses, []journal.Loss{{File: "/j/FORMAT"}}) {
			t.Fatalf("Repair returns losses %v and error %v", losses, err)
		}
		l := openTestLog(t, "/j", o)
		if got := journaltest.ReadEntryTexts(t, l, journal.Position{}); !slices.Equal(got, w.entries) {
			t.Fatalf("%d entries after repair", len(got))
		}
		_ = l.Close()
	}
}

// checkDamage opens the log with one changed file, and expects an error that names the lost commits.
func (w writtenLog) checkDamage(t *testing.T, name string, at int, changed []byte) {
	t.Helper()
	l, fs, err := w.openWithChangedFile(t, name, changed)
	var damage *journal.DamageError
	if !errors.As(err, &damage) {
		if err == nil {
			_ = l.Close()
		}
		t.Fatalf("%s changed at %d: opened with %v", name, at, err)
	}
	if at >= 0 && filepath.Base(damage.File) != name {
		t.Fatalf("%s changed at %d: %v", name, at, err)
	}
	for _, want := range []string{"at offset", "lost: commit", "muster doctor repair"} {
		if !strings.Contains(err.Error(), want) {
			t.Fatalf("message %q does not say %q", err, want)
		}
	}
	o := smallSegmentOptions
	o.FS = fs
	losses, err := journal.Repair("/j", o)
	if err != nil || len(losses) == 0 {
		t.Fatalf("%s changed at %d: repair: %v, %v", name, at, losses, err)
	}
	losses = slices.DeleteFunc(losses, func(l journal.Loss) bool { return l.First == 0 }) // rewritten with all commits
	l, err = journal.Open("/j", o)
	if err != nil {
		t.Fatalf("%s changed at %d: opened after repair: %v", name, at, err)
	}
	defer l.Close()
	got := journaltest.ReadEntryTexts(t, l, journal.Position{})
	lost := 0
	for _, loss := range losses {
		lost += int(loss.Last - loss.First + 1)
	}
	if len(got) != len(w.entries)-lost || at >= 64 && lost != 1 && changed != nil && len(changed) == len(w.files[name]) {
		t.Fatalf("%s changed at %d: %d entries after repair, %d lost", name, at, len(got), lost)
	}
	for _, entry := range got {
		if !slices.Contains(w.entries, entry) {
			t.Fatalf("entry %q was never written", entry)
		}
	}
	if l.Head().Number != w.head {
		t.Fatalf("head %d, want %d", l.Head().Number, w.head)
	}
	if again, err := journal.Repair("/j", o); err == nil || again != nil {
		t.Fatalf("repair of an open log: %v, %v", again, err)
	}
}

// TestRepairKeepsUndamagedCommits damages a log in many places, and expects Repair to keep every undamaged commit. The
// repaired log must open, accept new entries, contain no entry that was never written, and keep every entry whose
// commit Repair does not report as lost.
func TestRepairKeepsUndamagedCommits(t *testing.T) {
	w := writeSmallLog(t)
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
		damaged := writtenLog{files: files}
		fs := damaged.withChangedFile(t, "", nil)
		o := smallSegmentOptions
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
		got := journaltest.ReadEntryTexts(t, l, tail)
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
		appendTestEntry(t, l, a, 99)
		if at := a.Wait(1)[0].At.Number; at != head+1 {
			r.Fatalf("goes on at %d after %d", at, head)
		}
	})
}
