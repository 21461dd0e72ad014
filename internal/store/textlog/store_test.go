//go:build unix

package textlog

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/store/sqldb"
	"github.com/muster-fleet/muster/internal/testenv"
)

// openStore opens a store that the test closes.
func openStore(t testing.TB, path string, o Options) *Store {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = slog.New(slog.DiscardHandler)
	s := testenv.Value(Open(t.Context(), path, o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// testCommit has the rows of one simulated journal commit, by partition.
type testCommit map[model.Partition][]Row

// testPartition returns the partition to which the tests assign a node.
func testPartition(node model.NodeID) model.Partition { return model.Partition(node % 3) }

// randomCommit returns a simulated journal commit with random rows of several nodes. Times mostly grow and
// sometimes jump back.
func randomCommit(r *rand.Rand, number int) testCommit {
	c := testCommit{}
	for range r.IntN(40) {
		node := model.NodeID(1 + r.IntN(5))
		row := Row{Node: node, Unit: model.UnitID(1 + r.IntN(2)), Key: "log" + string(rune('a'+r.IntN(3))), At: int64(number*1000 + r.IntN(3000)), Text: logLine(r, number)}
		if r.IntN(100) == 0 {
			row.Text = strings.Repeat("größe Λ=4 ", r.IntN(1000)) + row.Text
		}
		c[testPartition(node)] = append(c[testPartition(node)], row)
	}
	return c
}

// replay appends the rows of test commits, except commits that the store already contains. The metric view does
// the same after a start.
func replay(s *Store, commits []testCommit) {
	for i, c := range commits {
		for p, rows := range c {
			if at := (journal.Position{Log: 1, Number: uint64(i + 1)}); s.Position(p).Number < at.Number {
				s.Append(p, at, rows)
			}
		}
	}
}

// TestReplayStoresEachRowOnce restarts the store between random commits, and expects each row once after a replay. Some rows
// are only in memory at a restart. After the replay all rows are there once, and the result of each query equals that
// of a full scan.
func TestReplayStoresEachRowOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "text.db")
	s := openStore(t, path, Options{})
	var commits []testCommit
	for life := range 6 {
		for range 60 {
			commits = append(commits, randomCommit(r, len(commits)))
			replay(s, commits)
			switch r.IntN(10) {
			case 0:
				testenv.NoError(t, s.Flush(t.Context(), model.Partition(r.IntN(3))))
			case 1:
				testenv.NoError(t, s.writeCompleteBlocks(t.Context()))
			}
		}
		compareWithScan(t, s, r, commits)
		testenv.NoError(t, s.Close())
		s = openStore(t, path, Options{})
		if life == 5 && s.Position(1).Number == 0 {
			t.Error("nothing was written")
		}
		replay(s, commits)
		compareWithScan(t, s, r, commits)
	}
}

// compareWithScan compares the results of random queries with a scan of all rows.
func compareWithScan(t *testing.T, s *Store, r *rand.Rand, commits []testCommit) {
	t.Helper()
	var all []Row
	for _, c := range commits {
		for p := range model.Partition(3) {
			all = append(all, c[p]...)
		}
	}
	words := []string{"", "", "failed", "PASSWORD failed", "größe", "10.1", "deploy root", "4", "absent", "exec-7]", "Λ=4"}
	parts := []string{"", "", "", "assword for inv", "nf_conntrack: dropped packet", "OSSE", "ße λ", "ße Λ="}
	for range 12 {
		q := Query{Words: words[r.IntN(len(words))], Contains: parts[r.IntN(len(parts))], Limit: 1 + r.IntN(2000)}
		if r.IntN(2) == 0 {
			q.Node = model.NodeID(1 + r.IntN(5))
			q.Partition = testPartition(q.Node)
			if r.IntN(2) == 0 {
				q.Key = "loga"
			}
		} else if r.IntN(2) == 0 {
			q.Accepts = func(row *Row) bool { return row.Node != 2 }
		}
		if r.IntN(2) == 0 {
			q.Since = int64(r.IntN(len(commits)) * 1000)
			q.Until = q.Since + int64(r.IntN(100_000))
		}
		var want []string
		for _, row := range all {
			if (q.Node == 0 || row.Node == q.Node) && (q.Key == "" || row.Key == q.Key) && (q.Accepts == nil || q.Accepts(&row)) && row.At >= q.Since && (q.Until == 0 || row.At <= q.Until) && hasAll(row.Text, &q) {
				want = append(want, fmt.Sprintf("%016d %d %d %s %s", row.At, row.Node, row.Unit, row.Key, row.Text))
			}
		}
		slices.Sort(want)
		rows, more, err := s.Find(t.Context(), &q)
		testenv.NoError(t, err)
		var got []string
		for i, row := range rows {
			got = append(got, fmt.Sprintf("%016d %d %d %s %s", row.At, row.Node, row.Unit, row.Key, row.Text))
			if i > 0 && row.At < rows[i-1].At {
				t.Fatal("rows are not in the order of their times")
			}
		}
		slices.Sort(got)
		if len(want) > q.Limit { // rows of the oldest time in the result may be others
			if !more || len(got) != q.Limit || rows[0].At != timeOf(want[len(want)-q.Limit]) {
				t.Fatalf("%+v: %d rows from %d, more %v; want %d from %d", q, len(got), rows[0].At, more, q.Limit, timeOf(want[len(want)-q.Limit]))
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %d rows, want %d", q, len(got), len(want))
		}
	}
}

// timeOf parses the time at the start of a row's text, as the tests write texts.
func timeOf(text string) int64 {
	at, _ := strconv.ParseInt(text[:16], 10, 64)
	return at
}

// hasAll reports whether a text has all phrases of a query, by a slow and simple search. The test compares the result
// with the store's.
func hasAll(text string, q *Query) bool {
	lower := func(text string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}, text)
	}
	isWord := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80
	}
	text = lower(text)
	for _, word := range strings.Fields(lower(q.Words)) {
		found := false
		for i := 0; i+len(word) <= len(text) && !found; i++ {
			end := i + len(word)
			found = text[i:end] == word && (i == 0 || !isWord(text[i-1]) || !isWord(text[i])) && (end == len(text) || !isWord(text[end]) || !isWord(text[end-1]))
		}
		if !found {
			return false
		}
	}
	return strings.Contains(text, lower(q.Contains))
}

// TestLargestNodeLosesOldestRows fills the store beyond its limit, and expects only the largest node to lose
// old rows. The removed rows are counted, and a second node keeps all its rows. Later the retention of all has
// ended.
func TestLargestNodeLosesOldestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	now := time.Unix(1000, 0)
	s := openStore(t, filepath.Join(t.TempDir(), "text.db"), Options{Budget: 300 << 10, Retention: time.Hour, Now: func() time.Time { return now }})
	for n := range 40_000 {
		row := Row{Node: 1, Key: "log", At: now.UnixNano() + int64(n), Text: logLine(r, n)}
		if n%1000 == 0 {
			row.Node = 2
		}
		s.Append(testPartition(row.Node), journal.Position{Log: 1, Number: uint64(n + 1)}, []Row{row})
	}
	for p := range model.Partition(3) {
		testenv.NoError(t, s.Flush(t.Context(), p))
	}
	testenv.NoError(t, s.Clean(t.Context(), now))
	count := func(node model.NodeID) int {
		rows, _, err := s.Find(t.Context(), &Query{Node: node, Partition: testPartition(node), Limit: 100_000})
		testenv.NoError(t, err)
		return len(rows)
	}
	quiet, loud := count(2), count(1)
	if quiet != 40 || loud < 2000 || loud > 30_000 || s.counts.crowded.Load() != uint64(40_000-quiet-loud) {
		t.Errorf("%d rows of the quiet node and %d of the other, %d removed", quiet, loud, s.counts.crowded.Load())
	}
	now = now.Add(2 * time.Hour)
	if count(1) != 0 {
		t.Error("rows are found after their retention")
	}
	testenv.NoError(t, s.Clean(t.Context(), now))
	if s.counts.removed.Load() != uint64(quiet+loud) {
		t.Errorf("%d rows removed", s.counts.removed.Load())
	}
}

// TestFullDiskStopsGrowth fills the disk, and expects old blocks to be removed until space is free again. Space is
// free when the disk has its reserve.
func TestFullDiskStopsGrowth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	free := int64(100)
	s := openStore(t, filepath.Join(t.TempDir(), "text.db"), Options{KeepFree: 200, Free: func() (int64, error) { return free, nil }})
	for n := range 10_000 {
		s.Append(0, journal.Position{Log: 1, Number: uint64(n + 1)}, []Row{{Node: 3, Key: "log", At: int64(n), Text: logLine(r, n)}})
	}
	testenv.NoError(t, s.writeCompleteBlocks(t.Context()))
	testenv.NoError(t, s.Clean(t.Context(), time.Now()))
	removed := s.counts.crowded.Load()
	free = 300
	testenv.NoError(t, s.Clean(t.Context(), time.Now()))
	if removed == 0 || s.counts.crowded.Load() != removed {
		t.Errorf("%d rows removed on a full disk, then %d", removed, s.counts.crowded.Load()-removed)
	}
}

// TestDamagedBlockIsLeftOut damages a stored block, and expects a search to return all other rows. The damaged block
// is counted.
func TestDamagedBlockIsLeftOut(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "text.db"), Options{})
	for n := range 2 {
		s.Append(0, journal.Position{Log: 1, Number: uint64(n + 1)}, []Row{{Node: 3, Key: "log", At: int64(n), Text: strings.Repeat("x", blockSize)}})
	}
	testenv.NoError(t, s.writeCompleteBlocks(t.Context()))
	var b block
	b.id, b.sum, b.store = 1, []byte{}, []byte{formZstd, 1, 2, 3}
	tx := []block{b}
	testenv.NoError(t, s.db.Write(t.Context(), func(of *sqldb.Tx) error { return s.insert.Insert(t.Context(), of, tx) }))
	rows, _, err := s.Find(t.Context(), &Query{Limit: 10})
	testenv.NoError(t, err)
	if len(rows) != 1 || s.counts.damaged.Load() != 1 {
		t.Errorf("%d rows, %d damaged blocks", len(rows), s.counts.damaged.Load())
	}
}

// TestGoldenBlock compares encoded rows and their filter with golden bytes. Existing databases contain the same
// format.
func TestGoldenBlock(t *testing.T) {
	var e rowEncoder
	e.append(&Row{Node: 7, Unit: 300, Key: "log[/a]", At: 1000, Text: "one line"})
	e.append(&Row{Node: 8, Unit: 1, Key: "t", At: 990, Text: ""})
	e.append(&Row{Node: 7, Unit: 300, Key: "log[/a]", At: 2000, Text: "Two"})
	words, hashes := newWordClass(), []uint64(nil)
	const body = "1a0007ac02076c6f675b2f615dd00f080008010174130001e40f036f6e65206c696e6554776f"
	if got := hex.EncodeToString(e.body(nil)); got != body {
		t.Errorf("body %s, want %s", got, body)
	}
	const filter = "ea448ab70b52a442d4"
	if got := hex.EncodeToString(words.buildFilter(&e, &hashes)); got != filter {
		t.Errorf("filter %s, want %s", got, filter)
	}
}

// FuzzRows decodes random bytes as a stored block, and expects valid rows to survive encoding and decoding. Rows that
// decode are encoded to a block that gives the same rows, and its filter has all words.
func FuzzRows(f *testing.F) {
	var e rowEncoder
	e.append(&Row{Node: 7, Unit: 300, Key: "log[/a]", At: 1000, Text: "one line"})
	e.append(&Row{Node: 7, Unit: 300, Key: "log[/a]", At: 2000, Text: "Two"})
	f.Add(e.body(nil))
	words := newWordClass()
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := decodeAll(body)
		if err != nil {
			return
		}
		var e rowEncoder
		for i := range rows {
			e.append(&rows[i])
		}
		again, err := decodeAll(e.body(nil))
		testenv.NoError(t, err)
		if !slices.Equal(rows, again) {
			t.Fatalf("rows %v, again %v", rows, again)
		}
		var hashes []uint64
		filter := words.buildFilter(&e, &hashes)
		for _, row := range rows {
			if want := append(words.appendWordHashes(nil, []byte(row.Text)), streamHash(row.Node, row.Key), nodeHash(row.Node)); !mayContain(filter, want) {
				t.Fatalf("the filter lacks a word of %q", row.Text)
			}
		}
	})
}

// decodeAll decodes all rows of a block's body.
func decodeAll(body []byte) (rows []Row, err error) {
	d, err := newRowDecoder(bytes.Clone(body))
	if err != nil {
		return nil, err
	}
	for d.next() {
		rows = append(rows, d.row)
	}
	return rows, d.err()
}
