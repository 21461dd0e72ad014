//go:build linux

package test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// journalSegments returns the paths and contents of a server's journal segments, oldest first.
func journalSegments(t *testing.T, s *harness.Server) (paths []string, contents [][]byte) {
	t.Helper()
	paths, _ = filepath.Glob(filepath.Join(s.Data, "journal", "*.log"))
	slices.Sort(paths)
	require(t, len(paths) != 0, "no segment")
	for _, path := range paths {
		data := readFile(t, path)
		contents = append(contents, data)
	}
	return paths, contents
}

// hasNoLoss reports whether a load report is valid and shows no lost result. It ignores results that were never
// made because spools were full while the server was down.
func hasNoLoss(rep *report.Report) bool { return rep.Valid && !rep.Lost() }

// killAfterLoad sends load to a server, and kills the server before the next snapshot. Only the journal has
// these results.
func killAfterLoad(t *testing.T, fleet harness.Fleet, span time.Duration, args ...string) (s *harness.Server, states map[harness.StateKey]observe.EventState) {
	t.Helper()
	s = harness.StartFleet(t, fleet, args...)
	rep, err := load.Run(t.Context(), s.LoadConfig(fleet, span))
	require(t, err == nil && hasNoLoss(rep), "load run: %v %+v", err, rep)
	states = s.FleetStates()
	s.Kill()
	return s, states
}

// expectRefusedStart starts a server, and expects the server to refuse the start. It returns the server's log.
func expectRefusedStart(t *testing.T, s *harness.Server) string {
	t.Helper()
	s.Launch()
	s.AwaitExit(harness.AnyFailure)
	return s.Log()
}

// runRepair runs the repair command from a server's start error, and expects a repetition to change nothing. It
// returns the first output.
func runRepair(t *testing.T, s *harness.Server, refusal string) string {
	t.Helper()
	command := regexp.MustCompile(`: muster (doctor repair --data .*)`).FindStringSubmatch(refusal)
	require(t, command != nil, "the refusal names no command:\n%s", refusal)
	said := s.CLI(strings.Fields(command[1])...)
	s.Try(strings.Fields(command[1])...).Expect(0, "nothing was changed")
	return said
}

// compareStates fails the test if the event states before and after the damage differ.
func compareStates(t *testing.T, before, after map[harness.StateKey]observe.EventState) {
	t.Helper()
	assert(t, len(before) == len(after), "%d states, before %d", len(after), len(before))
	for place, was := range before {
		now := after[place]
		assert(t, now == was, "state %+v was %+v, is %+v", place, was, now)
	}
}

// countOlderStates counts the event states that are older after the damage than before. It fails the test if a
// state is newer.
func countOlderStates(t *testing.T, before, after map[harness.StateKey]observe.EventState) (n int) {
	t.Helper()
	for place, was := range before {
		now := after[place]
		if now != was {
			n++
		}
		assert(t, now.Results <= was.Results && now.Number <= was.Number,
			"state %+v was %+v, is ahead of that: %+v", place, was, now)
	}
	return n
}

// A server with a damaged journal refuses to start. Its error names the file, the loss and a repair command. A torn
// end is cut and counted, and the server starts.
func TestDamagedJournalStopsStart(t *testing.T) {
	t.Parallel()
	s, before := killAfterLoad(t, harness.Fleet{Agents: 5, Checks: 4, Interval: 200 * time.Millisecond}, 3*time.Second)
	paths, contents := journalSegments(t, s)
	last, whole := paths[len(paths)-1], contents[len(paths)-1]

	torn := append(bytes.Clone(whole), whole[len(whole)/2:len(whole)/2+20]...)
	writeFile(t, last, torn)
	s.Start()
	compareStates(t, before, s.FleetStates())
	if n := s.Metric("muster_journal_torn_commits_total"); n != 1 || !strings.Contains(s.Log(), "removed an incomplete commit at the journal's end") {
		t.Errorf("%v torn commits are counted; the log:\n%s", n, s.Log())
	}
	s.Kill()

	damaged := bytes.Clone(whole)
	damaged[len(whole)/2] ^= 0x10
	writeFile(t, last, damaged)
	refusal := expectRefusedStart(t, s)
	expectTexts(t, refusal, filepath.Base(last), "at offset", "lost: commit", "muster doctor repair --data "+s.Data)
	if said := runRepair(t, s, refusal); !strings.Contains(said, last+": commit") || !strings.Contains(said, "lost") {
		t.Errorf("repair does not say what is lost:\n%s", said)
	}
	s.Start()
	countOlderStates(t, before, s.FleetStates())
	s.Stop()
}

// TestRandomJournalDamageIsReported damages the journal at random, and expects complete states or a reported
// loss. Either every state is there or the server reports a loss; no state is one that never existed, and the
// server accepts new results.
func TestRandomJournalDamageIsReported(t *testing.T) {
	t.Parallel()
	rounds := selectIfShort(2, 6)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	fleet := harness.Fleet{Agents: 5, Checks: 4, Interval: 100 * time.Millisecond}
	whole, before := killAfterLoad(t, fleet, 2*time.Second, "--snapshot-cycle", "1s")
	for range rounds {
		s := whole.Clone(t)
		paths, contents := journalSegments(t, s)
		var what []string
		for range 1 + random.IntN(3) {
			i := random.IntN(len(paths))
			data := contents[i]
			if len(data) == 0 {
				continue
			}
			at := random.IntN(len(data))
			if random.IntN(3) == 0 {
				contents[i] = data[:at]
				what = append(what, "cut")
			} else {
				data[at] ^= 1 << random.IntN(8)
				what = append(what, "flip")
			}
			t.Logf("%s at %d of %d in %s", what[len(what)-1], at, len(data), filepath.Base(paths[i]))
		}
		for i, path := range paths {
			writeFile(t, path, contents[i])
		}
		s.Launch()
		harness.Until(t, 40*time.Second, "the server is ready or has refused", func() (string, bool) {
			why, ready := s.Ready()
			return why, ready || s.Ended()
		})
		told := s.Log()
		if s.Ended() {
			expectTexts(t, told, "lost: commit", "at offset")
			said := runRepair(t, s, told)
			assert(t, strings.Contains(said, "lost"), "repair says: %s", said)
			s.Start()
		} else if n := countOlderStates(t, before, s.FleetStates()); n > 0 && !strings.Contains(told, "removed an incomplete commit at the journal's end") {
			t.Errorf("%d states are older than before, and nothing says so:\n%s", n, told)
		}
		countOlderStates(t, before, s.FleetStates())
		rep, err := load.Run(t.Context(), s.LoadConfig(fleet, time.Second))
		assert(t, err == nil && rep.OK(), "load run after the repair: %v %+v", err, rep)
		s.Stop()
		for _, word := range []string{"panic", "BUG"} {
			log := told + s.Log()
			assert(t, !strings.Contains(log, word), "the log says %s:\n%s", word, log)
		}
		if t.Failed() {
			return
		}
	}
}

// snapshotFiles returns the paths of a server's snapshot files. Within a partition (share of the nodes) the oldest
// comes first.
func snapshotFiles(t *testing.T, s *harness.Server) []string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.Data, "snapshots", "*.snap"))
	slices.Sort(files)
	require(t, len(files) != 0, "no snapshots")
	return files
}

// newestSnapshots returns the path of the newest snapshot of each partition (share of the nodes).
func newestSnapshots(files []string) (list []string) {
	for i, f := range files {
		if i+1 == len(files) || filepath.Base(files[i+1])[:4] != filepath.Base(f)[:4] {
			list = append(list, f)
		}
	}
	return list
}

// TestUnusableSnapshotsAreReplaced damages snapshots, and expects the server to use older snapshots or the journal.
// The server logs the damage.
func TestUnusableSnapshotsAreReplaced(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 4, Interval: 200 * time.Millisecond}
	whole, before := killAfterLoad(t, fleet, 4*time.Second, "--snapshot-cycle", "1s")
	change := func(t *testing.T, path string, change func([]byte) []byte) {
		t.Helper()
		data := readFile(t, path)
		writeFile(t, path, change(data))
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	other := func(name string) string { // the name of the same snapshot in another incarnation
		i := strings.IndexByte(name, '-') + 1
		return name[:i] + "00000000000000aa" + name[i+16:]
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, s *harness.Server)
		says  string
	}{
		{"newest flipped", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				change(t, f, flip)
			}
		}, "the snapshot is unusable; the server uses an older snapshot or the journal"},
		{"newest cut", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				change(t, f, cut)
			}
		}, "the snapshot is unusable; the server uses an older snapshot or the journal"},
		{"newest missing", func(t *testing.T, s *harness.Server) {
			for _, f := range newestSnapshots(snapshotFiles(t, s)) {
				os.Remove(f)
			}
		}, "event view is up to date"},
		{"all flipped", func(t *testing.T, s *harness.Server) {
			for _, f := range snapshotFiles(t, s) {
				change(t, f, flip)
			}
		}, "the snapshot is unusable; the server uses an older snapshot or the journal"},
		{"all missing", func(t *testing.T, s *harness.Server) { os.RemoveAll(filepath.Join(s.Data, "snapshots")) }, "event view is up to date"},
		{"all of another server", func(t *testing.T, s *harness.Server) {
			for _, f := range snapshotFiles(t, s) {
				testenv.NoError(t, os.Rename(f, filepath.Join(filepath.Dir(f), other(filepath.Base(f)))))
			}
		}, "or of another server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := whole.Clone(t)
			c.spoil(t, s)
			s.Start()
			after := s.FleetStates()
			compareStates(t, before, after)
			expectTexts(t, s.Log(), c.says)
			rep, err := load.Run(t.Context(), s.LoadConfig(fleet, time.Second))
			assert(t, err == nil && rep.OK(), "load run after the repair: %v %+v", err, rep)
			after = s.FleetStates()
			s.Kill()
			s.Start()
			compareStates(t, after, s.FleetStates())
		})
	}
}

// TestLostSnapshotsStopStart deletes snapshots, and expects the server to refuse a start before the repair
// command.
func TestLostSnapshotsStopStart(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 5, Interval: 100 * time.Millisecond, OutputBytes: 20_000}
	s, before := killAfterLoad(t, fleet, 6*time.Second, "--snapshot-cycle", "1s", "--journal-budget", "64MiB")
	paths, _ := journalSegments(t, s)
	require(t, !strings.HasSuffix(paths[0], "/00000000000000000001.log"), "the journal was not cut: nothing is shown")
	for _, f := range snapshotFiles(t, s) {
		if strings.HasPrefix(filepath.Base(f), "p0") { // of partitions 0 to 99
			os.Remove(f)
		}
	}
	refusal := expectRefusedStart(t, s)
	expectTexts(t, refusal, "100 of 256 partitions ")
	said := runRepair(t, s, refusal)
	assert(t, strings.Contains(said, "the event states of 100 of 256 partitions before commit "), "repair says:\n%s", said)
	s.Start()
	countOlderStates(t, before, s.FleetStates())
	fleet.OutputBytes = 100 // the journal is full enough, and a slow disk takes these outputs in time
	rep, err := load.Run(t.Context(), s.LoadConfig(fleet, 2*time.Second))
	require(t, err == nil && rep.OK(), "load run after the repair: %v %+v", err, rep)
	after := s.FleetStates()
	assert(t, len(after) == len(before), "%d states came back of %d", len(after), len(before))
	s.Stop()
}

// TestDeletedHistoryIsRebuilt deletes the history database, and expects the server to rebuild
// history from snapshots and journal. The server computes history from the oldest snapshots and the journal, and the
// repair prints the time from which history is complete.
func TestDeletedHistoryIsRebuilt(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 20, Checks: 5, Interval: 400 * time.Millisecond, OutputBytes: 20_000, Changes: 0.3}
	whole, before := killAfterLoad(t, fleet, 12*time.Second, "--snapshot-cycle", "3s", "--journal-budget", "64MiB")
	paths, _ := journalSegments(t, whole)
	require(t, !strings.HasSuffix(paths[0], "/00000000000000000001.log"), "the journal was not cut: nothing is shown")
	type change struct {
		at          int64
		node, check string
		status      model.Status
	}
	changes := func(s *harness.Server, since time.Time) map[change]bool {
		s.Start()
		s.API = s.Client()
		compareStates(t, before, s.FleetStates())
		awaitHistory(t, s.API)
		list := map[change]bool{}
		for q := (v1.HistoryQuery{Limit: 1000, Since: since}); ; {
			page := testenv.Value(s.API.Events.Entries(t.Context(), q))(t)
			for _, e := range page.Items {
				if e.Kind == "status" && e.Node != model.ServerNodeName && e.Check != model.KeepaliveCheckName {
					list[change{e.At.UnixNano(), e.Node, e.Check, e.Status}] = true
				}
			}
			if q.After = page.Next; page.Next == "" {
				break
			}
		}
		s.Kill()
		return list
	}
	for name, spoil := range map[string]func(t *testing.T, db string){
		"gone": func(t *testing.T, db string) { testenv.NoError(t, errors.Join(os.Remove(db), os.Remove(db+"-wal"))) },
		"damaged": func(t *testing.T, db string) {
			data := readFile(t, db)
			clear(data[len(data)/4 : len(data)/2])
			writeFile(t, db, data)
			wal := readFile(t, db+"-wal")
			writeFile(t, db+"-wal", wal[:len(wal)/2])
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := whole.Clone(t)
			spoil(t, filepath.Join(s.Data, "history.db"))
			said := s.CLI("doctor", "repair", "--data", s.Data)
			s.Try("doctor", "repair", "--data", s.Data).Expect(0, "nothing was changed")
			found := regexp.MustCompile(`the next start reads the changes since (\S+) \(commit \d+\) again`).FindStringSubmatch(said)
			require(t, found != nil, "repair says:\n%s", said)
			since := testenv.Value(time.Parse(time.RFC3339, found[1]))(t).Add(time.Second) // it is shown in whole seconds
			was, is := changes(whole.Clone(t), since), changes(s, since)
			require(t, len(was) > 20, "only %d changes since %s: the test shows nothing", len(was), since)
			assert(t, maps.Equal(was, is), "%d changes since %s, were %d", len(is), since, len(was))
		})
	}
}

// damageKinds are the kinds of damage to a file; at is the place, from 0 to 1, of those that have one.
var damageKinds = []struct {
	name   string
	placed bool
	change func(data []byte, at int) []byte
}{
	{"flip", true, func(data []byte, at int) []byte { data[min(at, len(data)-1)] ^= 0x10; return data }},
	{"zeros", true, func(data []byte, at int) []byte { clear(data[at:min(at+600, len(data))]); return data }},
	{"cut", true, func(data []byte, at int) []byte { return data[:at] }},
	{"empty", false, func([]byte, int) []byte { return nil }},
	{"gone", false, nil},
	{"foreign", false, nil},
	{"older", false, nil},
}

// damagePlaces are the places of damage: in the header, in the first part, in the middle, at the end.
var damagePlaces = []float64{0.0001, 0.2, 0.5, 0.999}

// damagedFiles are the files of a data folder that the suite damages: the last file of the patterns, or all.
var damagedFiles = []struct {
	name, patterns string
	all, killed    bool // killed: only in a folder whose server was killed
	together       bool // only set back to older copies
}{
	{name: "segment", patterns: "journal/*.log"},
	{name: "format", patterns: "journal/FORMAT"},
	{name: "snapshots", patterns: "snapshots/*.snap", all: true},
	{name: "intent", patterns: "intent.db"},
	{name: "intent-wal", patterns: "intent.db-wal", killed: true},
	{name: "history", patterns: "history.db"},
	{name: "history-wal", patterns: "history.db-wal", killed: true},
	{name: "ca", patterns: "pki/ca.crt"},
	{name: "ca-key", patterns: "pki/ca.key"},
	{name: "signing-key", patterns: "pki/assignments.key"},
	{name: "server-certificate", patterns: "pki/server.crt"},
	{name: "journal and snapshots", patterns: "journal/*.log snapshots/*.snap", all: true, together: true},
}

// damageCase describes one kind of damage to one file of a data folder.
type damageCase struct {
	name, patterns string
	all            bool
	kind, place    int
}

// damageCases returns a test case for each kind and place of damage to data files. It has each kind of damage,
// at each place, in each file. In short it is a sample.
func damageCases(killed bool) (list []damageCase) {
	for _, f := range damagedFiles {
		if f.killed && !killed || killed && strings.HasPrefix(f.patterns, "pki/") { // a kill leaves pki as a stop does
			continue
		}
		for kind, k := range damageKinds {
			if f.together && k.name != "older" {
				continue
			}
			places := len(damagePlaces)
			if !k.placed {
				places = 1
			}
			for place := range places {
				name := f.name + " " + k.name
				if k.placed {
					name += fmt.Sprintf(" at %g", damagePlaces[place])
				}
				list = append(list, damageCase{name, f.patterns, f.all, kind, place})
			}
		}
	}
	if testing.Short() {
		for i := range list {
			list[i/16] = list[i]
		}
		list = list[:len(list)/16]
	}
	return list
}

// matchFiles returns the files in a folder whose names match one of the patterns.
func matchFiles(dir, patterns string) (files []string) {
	for _, pattern := range strings.Fields(patterns) {
		matches, _ := filepath.Glob(filepath.Join(dir, pattern))
		files = append(files, matches...)
	}
	slices.Sort(files)
	return files
}

// damageFiles damages files in a server's data folder, as the test case describes. older is an earlier copy of
// the folder, and foreign is another server's folder.
func (c damageCase) damageFiles(t *testing.T, data, older, foreign string) {
	t.Helper()
	files, olders, others := matchFiles(data, c.patterns), matchFiles(older, c.patterns), matchFiles(foreign, c.patterns)
	require(t, len(files) != 0 && len(olders) != 0, "no file %s", c.patterns)
	if !c.all {
		files, olders = files[len(files)-1:], olders[len(olders)-1:]
	}
	k := damageKinds[c.kind]
	if k.name == "older" {
		for _, file := range files {
			testenv.NoError(t, os.Remove(file))
		}
		for _, file := range olders {
			writeFile(t, filepath.Join(data, strings.TrimPrefix(file, older)), readFile(t, file))
		}
		return
	}
	for _, file := range files {
		switch {
		case k.change != nil:
			content := readFile(t, file)
			at := int(damagePlaces[c.place] * float64(len(content)))
			t.Logf("%s at byte %d of %d of %s", k.name, at, len(content), file)
			writeFile(t, file, k.change(content, at))
		case k.name == "foreign" && len(others) > 0:
			writeFile(t, file, readFile(t, others[len(others)-1]))
		default:
			testenv.NoError(t, os.Remove(file))
		}
	}
}

// damagedTemplate has an item and a trigger that is true at once.
const damagedTemplate = `
kind: Template
metadata: {name: linux}
spec:
  targets: {groups: [all]}
  items: [{key: system.uptime, type: unsigned, interval: 1s, unit: s}]
  triggers: [{name: machine is up, expression: "min(//system.uptime,#3)>0", severity: high}]
`

// installationRecord has the event states, history and item values of a server before the damage.
type installationRecord struct {
	states  map[harness.StateKey]observe.EventState
	history map[string]int          // number of entries by their text, always 1
	items   map[string]v1.ItemState // by node and key
}

// countHistoryChanges counts how often each status change occurs in the recorded history. It returns the number of times that
// each change occurs. With incomplete, a namespace may be lost. A damaged history is an error.
func countHistoryChanges(t *testing.T, api *client.Client, incomplete bool) (list map[string]int, err error) {
	t.Helper()
	list = map[string]int{}
	for _, namespace := range []string{simulated.Namespace, model.DefaultNamespaceName} {
		for q := (v1.HistoryQuery{Namespace: namespace, Limit: 500}); ; {
			page, err := api.Events.Entries(t.Context(), q)
			if incomplete && model.ClassOf(err) == model.NotFound {
				break
			}
			if err != nil {
				return nil, err
			}
			for _, e := range page.Items {
				if e.Kind == "status" && e.Check != model.KeepaliveCheckName && e.Node != model.ServerNodeName {
					list[fmt.Sprint(e.Node, " ", e.Source, " ", e.Executed.UnixMilli(), " ", e.StatusName)]++
				}
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	return list, nil
}

// readItems returns the last value of each item on the server, by node and item key.
func readItems(t *testing.T, api *client.Client) map[string]v1.ItemState {
	t.Helper()
	page := testenv.Value(api.Items(t.Context(), v1.ItemFilter{}, 100, ""))(t)
	list := map[string]v1.ItemState{}
	for _, i := range page.Items {
		list[i.Node+" "+i.Key] = i
	}
	return list
}

// TestDamagedFilesAreReported damages data files, and expects a refused start or a report of every loss. The
// server refuses to start and names the folder and a command that makes it start, or it starts with all states,
// or it says in its log what is lost. It never has a state that did not exist; the ledger and the independent
// counts by API and history agree; ids that were used are not given again.
func TestDamagedFilesAreReported(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 5, Checks: 4, Interval: 200 * time.Millisecond, Changes: 0.2}
	killed := harness.StartFleet(t, fleet, "--snapshot-cycle", "1s")
	killed.Apply(damagedTemplate)
	agent := killed.StartAgent("db1")
	killed.AwaitOutput("get problems", "db1", "linux:machine is up")
	runLoad := func() {
		rep, err := load.Run(t.Context(), killed.LoadConfig(fleet, 3*time.Second))
		require(t, err == nil && hasNoLoss(rep), "load run: %v %+v", err, rep)
	}
	runLoad()
	older := filepath.Join(t.TempDir(), "older")
	killed.Pause() // the copy equals a snapshot of the disk
	harness.CopyFolder(t, killed.Data, older)
	killed.Resume()
	runLoad()
	agent.Stop()
	before := &installationRecord{states: killed.FleetStates()}
	killed.Kill()
	stopped := killed.Clone(t)
	stopped.Start()
	api := stopped.Client()
	awaitHistory(t, api)
	history, err := countHistoryChanges(t, api, false)
	testenv.NoError(t, err)
	before.history, before.items = history, readItems(t, api)
	require(t, len(before.history) > 20 && before.items["db1 system.uptime"].Value != "", "%d changes, items %+v", len(before.history), before.items)
	stopped.Stop()
	other := harness.NewServer(t)
	other.Prepare(fleet)
	other.Start()
	other.Stop()
	t.Run("killed in a row", func(t *testing.T) {
		t.Parallel()
		s := killed.Clone(t)
		for i := range selectIfShort(5, 12) {
			s.Launch()
			if i%2 == 0 {
				s.AwaitLog([]string{"event view is up to date", "msg=ready"}[i/2%2])
			}
			s.Kill()
		}
		compareDataAfterDamage(t, s, before)
	})
	cases := 1
	for _, base := range []struct {
		name   string
		server *harness.Server
		killed bool
	}{{"stopped", stopped, false}, {"killed", killed, true}} {
		for _, c := range damageCases(base.killed) {
			cases++
			t.Run(base.name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				s := base.server.Clone(t)
				c.damageFiles(t, s.Data, older, other.Data)
				compareDataAfterDamage(t, s, before)
			})
		}
	}
	t.Logf("%d cases", cases)
	assert(t, testing.Short() || cases >= 240, "%d cases, want at least 240", cases)
}

// lossesInLog has the log messages of a starting server about lost states.
var lossesInLog = []string{"removed an incomplete commit", "snapshot is unusable", "ignored snapshots of another incarnation", "is missing in history"}

// compareDataAfterDamage starts a server on a damaged data folder, and compares its data with the undamaged
// data. The data are states, history and items; if the server refuses the folder, the folder is repaired first.
func compareDataAfterDamage(t *testing.T, s *harness.Server, before *installationRecord) {
	t.Helper()
	s.Launch()
	harness.Until(t, 90*time.Second, "the server is ready or has refused", func() (string, bool) {
		why, ready := s.Ready()
		return why, ready || s.Ended()
	})
	refusal, refused := s.Log(), s.Ended()
	if refused {
		expectTexts(t, refusal, s.Data)
		said := runRepair(t, s, refusal)
		expectNoTexts(t, said, "panic", "nothing was changed")
		s.Start()
	}
	after := s.FleetStates()
	older := countOlderStates(t, before.states, after)
	reported := refused || slices.ContainsFunc(lossesInLog, func(text string) bool { return strings.Contains(refusal, text) })
	assert(t, older == 0 || reported, "%d states are older than before, and nothing says so:\n%s", older, refusal)
	api := s.Client()
	compareAPIWithStates(t, api, after, refused)
	awaitHistory(t, api)
	history, err := countHistoryChanges(t, api, reported)
	var damaged *model.Error
	if errors.As(err, &damaged) { // pages that no start reads: the reader gets the file and the command
		expectTexts(t, damaged.Message, filepath.Join(s.Data, "history.db"), "is damaged")
		s.Stop()
		runRepair(t, s, ": "+damaged.Hint)
		s.Start()
		api, reported = s.Client(), true
		awaitHistory(t, api)
		history, err = countHistoryChanges(t, api, reported)
	}
	testenv.NoError(t, err)
	before.compareHistory(t, history, reported)
	before.compareItems(t, readItems(t, api), reported)
	s.CLI("apply", "-f", tempFile(t, "check.yaml", "kind: Check\nmetadata: {name: after}\nspec: {command: [\"true\"], interval: 1h}\n"))
	body, _, err := api.Resources.Get(t.Context(), kind.Check().KindInfo, model.DefaultNamespaceName, "after")
	testenv.NoError(t, err)
	var made struct{ Status struct{ ID uint64 } }
	decodeJSON(t, body, &made)
	for place := range before.states {
		require(t, made.Status.ID > place.Check, "id %d was given before", made.Status.ID)
	}
	expectNoTexts(t, refusal+s.Log(), "panic", "BUG")
	s.Kill()
}

// compareHistory expects the history after a repair to agree with the history before the damage. With incomplete, a
// loss was reported: entries may be missing, but none is there twice, and none that never was.
func (r *installationRecord) compareHistory(t *testing.T, history map[string]int, incomplete bool) {
	t.Helper()
	for entry, n := range history {
		assert(t, n == r.history[entry], "history has %q %d times, before %d times", entry, n, r.history[entry])
	}
	assert(t, incomplete || len(history) == len(r.history), "history has %d changes, before %d", len(history), len(r.history))
}

// compareItems compares the last value of each item with its value before the damage. With incomplete, they may
// be older or missing.
func (r *installationRecord) compareItems(t *testing.T, items map[string]v1.ItemState, incomplete bool) {
	t.Helper()
	for name, was := range r.items {
		now, known := items[name]
		same := now.Value == was.Value && now.At.Equal(was.At)
		assert(t, same || incomplete && (!known || now.At.Before(was.At)), "item %s is %+v, was %+v", name, now, was)
	}
}

// compareAPIWithStates fails the test if any event's result count in the API differs from the event's state.
// With incomplete, the API may not know some events, because their resources are lost.
func compareAPIWithStates(t *testing.T, api *client.Client, states map[harness.StateKey]observe.EventState, incomplete bool) {
	t.Helper()
	applied := map[harness.StateKey]uint64{}
	for _, namespace := range []string{simulated.Namespace, model.DefaultNamespaceName} {
		for q := (v1.EventFilter{Namespace: namespace, Limit: 100}); ; {
			page, err := api.Events.List(t.Context(), q)
			if incomplete && model.ClassOf(err) == model.NotFound { // the namespace was lost with the intent
				break
			}
			testenv.NoError(t, err)
			for i := range page.Items {
				e := &page.Items[i]
				applied[harness.StateKey{Node: uint64(e.NodeID), Check: uint64(e.CheckID)}] = e.Results // triggers have check 0
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	for place, kept := range states {
		n, shown := applied[place]
		if !shown {
			n, shown = applied[harness.StateKey{Node: place.Node}]
		}
		assert(t, !shown && incomplete || n == kept.Results, "%+v: the API counts %d results, the view %d", place, n, kept.Results)
	}
}

// TestDamagedHistoryRepeatsNoNotification damages the history database, and expects no notification to be repeated. It cuts or
// deletes the database or its write-ahead log.
func TestDamagedHistoryRepeatsNoNotification(t *testing.T) {
	t.Parallel()
	fleet := harness.Fleet{Agents: 5, Checks: 4, Interval: 200 * time.Millisecond, Changes: 0.2}
	whole := harness.StartFleet(t, fleet, "--snapshot-cycle", "1s")
	hook := newWebhook(t, 0)
	whole.Apply(fmt.Sprintf(webhookHandlers, hook.URL))
	rep, err := load.Run(t.Context(), whole.LoadConfig(fleet, 5*time.Second))
	require(t, err == nil && hasNoLoss(rep), "load run: %v %+v", err, rep)
	awaitNotificationsSent(t, whole.API)
	whole.Kill()
	received := func() int { // without keepalives: no agent connects to the clones, which on a slow machine run long enough to say so
		hook.mu.Lock()
		defer hook.mu.Unlock()
		count := hook.got
		for _, body := range hook.bodies {
			if strings.Contains(body, `"keepalive"`) {
				count--
			}
		}
		return count
	}
	told := received()
	require(t, told > 0, "nobody was told: the test shows nothing")
	for _, c := range []struct {
		name string
		keep float64 // share of the write-ahead log; negative: the database is gone
	}{{"all", 1}, {"last frames", 0.97}, {"a quarter", 0.75}, {"half", 0.5}, {"all of it", 0}, {"the database", -1}} {
		t.Run(c.name, func(t *testing.T) {
			s := whole.Clone(t)
			wal := filepath.Join(s.Data, "history.db-wal")
			content := readFile(t, wal)
			if c.keep < 0 {
				testenv.NoError(t, os.Remove(filepath.Join(s.Data, "history.db")))
			}
			writeFile(t, wal, content[:int(max(0, c.keep)*float64(len(content)))])
			s.Launch()
			harness.Until(t, 90*time.Second, "the server is ready or has refused", func() (string, bool) {
				why, ready := s.Ready()
				return why, ready || s.Ended()
			})
			if s.Ended() {
				refusal := s.Log()
				expectTexts(t, refusal, "history.db")
				runRepair(t, s, refusal)
				s.Start()
			}
			s.API = s.Client()
			awaitNotificationsSent(t, s.API)
			expectEqual(t, "messages", received(), told)
			s.Stop()
		})
	}
}
