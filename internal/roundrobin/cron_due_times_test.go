package roundrobin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// cronRoundRobin returns a test round-robin check with a cron expression.
func cronRoundRobin(check model.CheckID, cron, zone string, timeout time.Duration, members, proxies int) directory.RoundRobin {
	r := roundRobinOf(check, 0, timeout, members, proxies)
	r.Definition.Cron, r.Definition.TimeZone = cron, zone
	return r
}

// parseTime parses a time in RFC 3339.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// runTimes returns the wall-clock times of a check's runs for a proxy node, to the minute.
func (f *simulatedMembers) runTimes(k runKey, zone string) (list []string) {
	location := testenv.Value(time.LoadLocation(zone))(f.t)
	for _, run := range f.runs[k] {
		list = append(list, f.start.Add(run+f.wallClockAhead).In(location).Format("02 15:04 -0700"))
	}
	return list
}

// TestEachDueTimeRunsOncePerProxyNode expects one run per cron time for each proxy node, within a second. All members
// (nodes that share the check) take part.
func TestEachDueTimeRunsOncePerProxyNode(t *testing.T) {
	f := simulateMembersAt(t, parseTime("2026-11-21T08:07:30Z"), cronRoundRobin(7, "*/10 * * * *", "UTC", 10*time.Second, 4, 8), cronRoundRobin(8, "30 9 * * *", "Europe/Paris", time.Second, 4, 0))
	f.advance(2 * time.Hour)
	for i := range 8 {
		runs := f.runs[runKey{7, model.NodeID(1000 + i)}]
		if len(runs) != 12 {
			t.Fatalf("%d runs about %d", len(runs), i)
		}
		for n, run := range runs {
			if due := 150*time.Second + time.Duration(n)*10*time.Minute; run < due || run > due+time.Second {
				t.Errorf("a run at %v, due at %v", run, due)
			}
		}
	}
	if got := f.runTimes(runKey{8, 0}, "Europe/Paris"); !slices.Equal(got, []string{"21 09:30 +0100"}) {
		t.Errorf("runs at %v", got)
	}
	for node := range model.NodeID(4) {
		if n := f.turnsGiven[node+1]; n < 24 || n > 25 {
			t.Errorf("node %d has %d turns of 97", node+1, n)
		}
	}
	if len(f.missed) > 0 {
		t.Errorf("missed run: %v", f.missed[0])
	}
}

// TestDueTimesAcrossSummerTime expects the right due times of cron expressions at the start and end of daylight
// saving time. Some due times are in the hour that the clock skips.
func TestDueTimesAcrossSummerTime(t *testing.T) {
	for _, c := range []struct {
		start, cron string
		want        []string
	}{
		{"2026-03-28T12:00:00+01:00", "30 2 * * *", []string{"30 02:30 +0200"}},
		{"2026-03-28T12:00:00+01:00", "0 3 * * *", []string{"29 03:00 +0200", "30 03:00 +0200"}},
		{"2026-03-28T12:00:00+01:00", "30 1-3 29 3 *", []string{"29 01:30 +0100", "29 03:30 +0200"}},
		{"2026-10-24T12:00:00+02:00", "30 1 * * *", []string{"25 01:30 +0200", "26 01:30 +0100"}},
		{"2026-10-24T12:00:00+02:00", "0 4 * * *", []string{"25 04:00 +0100", "26 04:00 +0100"}},
	} {
		f := simulateMembersAt(t, parseTime(c.start), cronRoundRobin(7, c.cron, "Europe/Paris", 10*time.Second, 2, 1))
		f.advance(44 * time.Hour)
		if got := f.runTimes(runKey{7, 1000}, "Europe/Paris"); !slices.Equal(got, c.want) {
			t.Errorf("%s from %s: %v, want %v", c.cron, c.start, got, c.want)
		}
	}
	// In the repeated hour, a fixed time runs once a day and every half hour runs each time.
	f := simulateMembersAt(t, parseTime("2026-10-24T12:00:00+02:00"), cronRoundRobin(7, "30 2 * * *", "Europe/Paris", 10*time.Second, 2, 1), cronRoundRobin(8, "*/30 * * * *", "Europe/Paris", 10*time.Second, 2, 1))
	f.advance(44*time.Hour + time.Minute)
	if got := f.runTimes(runKey{7, 1000}, "Europe/Paris"); !slices.Equal(got, []string{"25 02:30 +0200", "26 02:30 +0100"}) {
		t.Errorf("runs at %v", got)
	}
	if got := f.runTimes(runKey{8, 1000}, "Europe/Paris"); len(got) != 88 {
		t.Errorf("%d runs in 44 hours: %v", len(got), got)
	}
}

// TestOtherMemberTakesOverCronRun ends a node's session during a cron run, and expects another node to run the check.
// After a hang, another node runs the check when the timeout has passed.
func TestOtherMemberTakesOverCronRun(t *testing.T) {
	f := simulateMembersAt(t, parseTime("2026-11-21T02:59:00Z"), cronRoundRobin(7, "0 3 * * *", "UTC", 10*time.Second, 3, 1))
	f.hanging[1], f.hanging[2], f.hanging[3] = true, true, true
	f.advance(70 * time.Second)
	k := runKey{7, 1000}
	turn := f.engine.turns[k]
	first := turn.assignee
	if first == 0 || !turn.runOpen {
		t.Fatalf("given %v", f.turnsGiven)
	}
	f.disconnect(first)
	f.advance(time.Second)
	second := turn.assignee
	if second == 0 || second == first {
		t.Fatalf("with %d, given %v", second, f.turnsGiven)
	}
	third := 6 - first - second
	f.disconnected[third] = true
	f.advance(20 * time.Second)
	if turn.assignee != second {
		t.Fatalf("with %d, nobody else is there", turn.assignee)
	}
	delete(f.disconnected, third)
	delete(f.hanging, third)
	f.advance(16 * time.Second)
	if turn.runOpen || len(f.runs[k]) != 1 || f.turnsGiven[third] != 1 {
		t.Errorf("the hanging member keeps the turn: assignee %d, runs %v", turn.assignee, f.runs)
	}
	f.advance(20 * time.Hour)
	if len(f.runs[k]) != 1 {
		t.Errorf("runs %v", f.runs)
	}
}

// TestMissedDueTimeIsReportedOnce expects one report if no node with the check is connected at a due time. The nodes
// that share the check are its members; the report comes after a minute.
func TestMissedDueTimeIsReportedOnce(t *testing.T) {
	f := simulateMembersAt(t, parseTime("2026-11-21T02:00:00Z"), cronRoundRobin(7, "0 3 * * *", "UTC", time.Second, 2, 2), cronRoundRobin(8, "0 3 * * *", "UTC", time.Second, 2, 1))
	f.robins[1].Definition.Except = []model.Span{{Zone: "UTC", Spans: []model.WindowSpan{{During: "04:00-06:00"}}}}
	f.disconnected[1], f.disconnected[2] = true, true
	f.advance(time.Hour + 59*time.Second)
	if len(f.missed) > 0 {
		t.Fatalf("due time was reported as missed at once: %v", f.missed)
	}
	f.advance(70 * time.Minute)
	if list, nodes := f.engine.Faults(""); len(f.missed) != 3 || len(list) != 1 || nodes != 2 {
		t.Errorf("missed runs %v, faults %v", f.missed, list)
	}
	delete(f.disconnected, 2)
	f.advance(3 * time.Second)
	if list, _ := f.engine.Faults(""); len(f.runs) != 2 || len(f.runs[runKey{7, 1000}]) != 1 || len(list) != 0 {
		t.Errorf("runs %v, faults %v", f.runs, list)
	}
	f.advance(30 * time.Hour)
	if got := fmt.Sprint(len(f.missed), len(f.runs[runKey{7, 1000}]), len(f.runs[runKey{8, 1000}])); got != "3 2 1" {
		t.Errorf("missed, runs of one, of the other: %s", got)
	}
}

// TestRestartRepeatsMissedRuns restarts the server, and expects repetitions of recently due runs that have no
// result. Older due times do not run again.
func TestRestartRepeatsMissedRuns(t *testing.T) {
	for _, c := range []struct {
		what string
		back time.Duration // downtime of the server after the due time
		last string        // last result; empty: none ever
		want int
	}{
		{"the server was away at the due time", 20 * time.Minute, "2026-11-20T03:00:00Z", 1},
		{"it stopped with the run given", 3 * time.Second, "2026-11-20T03:00:00Z", 1},
		{"the run came back", 3 * time.Second, "2026-11-21T03:00:01Z", 0},
		{"it was away for long", 2 * time.Hour, "2026-11-20T03:00:00Z", 0},
		{"the check is new", 3 * time.Second, "", 0},
	} {
		for proxies := range 2 {
			f := simulateMembersAt(t, parseTime("2026-11-21T03:00:00Z").Add(c.back), cronRoundRobin(7, "0 3 * * *", "UTC", 10*time.Second, 3, proxies))
			if c.last != "" {
				f.lastResults[1000], f.lastResults[2] = parseTime(c.last), parseTime(c.last)
			}
			f.advance(10 * time.Second)
			if c.back < 10*time.Second && len(f.runs) > 0 {
				t.Errorf("%s: the turn was given away while its member may still reconnect", c.what)
			}
			f.advance(time.Minute)
			if n := len(f.runs[runKey{7, model.NodeID(1000 * proxies)}]); n != c.want || len(f.missed) > 0 {
				t.Errorf("%s: %d runs, want %d; missed %v", c.what, n, c.want, f.missed)
			}
			f.advance(25 * time.Hour)
			if n := len(f.runs[runKey{7, model.NodeID(1000 * proxies)}]); n != c.want+1 {
				t.Errorf("%s: %d runs a day later", c.what, n)
			}
		}
	}
	// A result of the run that the former server requested ends the turn.
	f := simulateMembersAt(t, parseTime("2026-11-21T03:00:03Z"), cronRoundRobin(7, "0 3 * * *", "UTC", 10*time.Second, 3, 1))
	f.lastResults[1000] = parseTime("2026-11-20T03:00:00Z")
	f.advance(2 * time.Second)
	f.engine.RecordResult(7, 1000, time.Second)
	f.advance(time.Hour)
	if len(f.turnsGiven) > 0 {
		t.Errorf("a turn with a result was given again: %v", f.turnsGiven)
	}
}

// TestClockChangeRepeatsNoRun changes the wall clock, and expects each due time to run only once. A skipped due time
// runs once, and a completed due time not again.
func TestClockChangeRepeatsNoRun(t *testing.T) {
	f := simulateMembersAt(t, parseTime("2026-11-21T01:00:00Z"), cronRoundRobin(7, "*/30 * * * *", "UTC", time.Second, 2, 1), cronRoundRobin(8, "* * * * *", "UTC", time.Second, 2, 1))
	f.advance(10 * time.Minute)
	f.wallClockAhead = 3 * time.Hour // 04:10
	f.advance(2 * time.Second)
	if got := f.runTimes(runKey{7, 1000}, "UTC"); !slices.Equal(got, []string{"21 04:10 +0000"}) {
		t.Fatalf("runs at %v", got)
	}
	f.advance(20*time.Minute + 2*time.Second) // 04:30
	f.wallClockAhead -= 5 * time.Second
	f.advance(10 * time.Second)
	if n := len(f.runs[runKey{7, 1000}]); n != 2 {
		t.Errorf("%d runs: the run of 04:30 came twice or never", n)
	}
	f.wallClockAhead -= 20 * time.Hour
	f.advance(31 * time.Minute)
	if n := len(f.runs[runKey{7, 1000}]); n != 3 {
		t.Errorf("%d runs: the turn waits for a due time of the day before", n)
	}
}

// TestChangedCronTakesEffectAtOnce changes the cron expression of a check, and expects the new times at once.
func TestChangedCronTakesEffectAtOnce(t *testing.T) {
	f := simulateMembersAt(t, parseTime("2026-11-21T08:00:00Z"), cronRoundRobin(7, "0 3 * * *", "UTC", time.Second, 2, 1))
	f.advance(time.Minute)
	f.robins, f.revision = []directory.RoundRobin{cronRoundRobin(7, "5 8 * * *", "UTC", time.Second, 2, 2)}, 2
	f.advance(5 * time.Minute)
	if len(f.runs) != 2 {
		t.Errorf("runs %v", f.runs)
	}
	f.robins, f.revision = []directory.RoundRobin{roundRobinOf(7, 10*time.Second, time.Second, 2, 2)}, 3
	f.advance(25 * time.Second)
	if n := len(f.runs[runKey{7, 1000}]); n < 2 || n > 4 {
		t.Errorf("%d runs after the change to an interval", n)
	}
	f.robins, f.revision = []directory.RoundRobin{cronRoundRobin(7, "5 8 * * *", "UTC", time.Second, 2, 1)}, 4
	f.advance(time.Minute)
	if len(f.engine.turns) != 1 || len(f.engine.heap) != 1 || !f.engine.turns[runKey{7, 1000}].dueTime.Equal(parseTime("2026-11-22T08:05:00Z")) {
		t.Errorf("turns after the change of the cron expression: %+v", f.engine.turns)
	}
}
