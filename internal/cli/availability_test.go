package cli_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

// journaledResult is one check result in the journal of the test server.
type journaledResult struct {
	at     time.Time
	status model.Status
}

// availabilityOf computes from made-up results how many seconds an event had each status, as the expected
// report. The test compares the availability report with them.
func availabilityOf(results []journaledResult, since, until time.Time) (seconds [4]float64, nothing float64) {
	nothing = until.Sub(since).Seconds()
	for i, r := range results {
		from, to := r.at, until
		if i+1 < len(results) && results[i+1].at.Before(until) {
			to = results[i+1].at
		}
		if from.Before(since) {
			from = since
		}
		if to.After(from) {
			seconds[r.status] += to.Sub(from).Seconds()
			nothing -= to.Sub(from).Seconds()
		}
	}
	return seconds, nothing
}

// TestAvailabilityAgreesWithJournal writes results to the journal, and expects the availability report to show
// the same seconds per status. The test itself computes the seconds per status.
func TestAvailabilityAgreesWithJournal(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.RunDispatcher()
	nodes, checks := []string{"web01", "web02", "web03"}, []string{"never", "young", "seldom", "often"}
	rig.DeclareNodes("default", nil, nodes...)
	for _, check := range checks {
		rig.Apply("apiVersion: muster/v1\nkind: Check\nmetadata: {name: " + check + "}\nspec: {targets: {groups: [all]}, interval: 60s, command: x}")
	}
	begin, random := rig.Now(), rand.New(rand.NewPCG(1, 2))
	journaled := map[string][]journaledResult{}
	for i := range 600 {
		rig.Advance(time.Duration(1+random.IntN(600)) * time.Second)
		node, check := nodes[random.IntN(len(nodes))], checks[random.IntN(len(checks))]
		status := model.OK
		switch check {
		case "young":
			if i < 400 {
				continue
			}
			status = model.Status(random.IntN(4))
		case "seldom":
			if random.IntN(8) == 0 {
				status = model.Critical
			}
		case "often":
			status = model.Status(random.IntN(4))
		}
		rig.RecordResult("default", node, check, status, fmt.Sprint("result ", i))
		name := node + "/" + check
		journaled[name] = append(journaled[name], journaledResult{rig.Now(), status})
	}
	rig.AwaitHistory()
	rig.Advance(time.Hour)
	all := rig.Now().Sub(begin)
	for range 30 {
		since := begin.Add(time.Duration(random.Int64N(int64(all)))).Truncate(time.Second)
		until := since.Add(time.Second + time.Duration(random.Int64N(int64(rig.Now().Sub(since))))).Truncate(time.Second)
		out := x.expectOutput("", fmt.Sprintf("report availability --since %s --until %s -o json", since.Format(time.RFC3339), until.Format(time.RFC3339)), 0)
		var l v1.AvailabilityList
		testenv.NoError(t, json.Unmarshal([]byte(out), &l))
		if len(l.Items) != len(journaled) {
			t.Fatalf("%d events, want %d", len(l.Items), len(journaled))
		}
		for _, one := range l.Items {
			if one.Source.Kind != "check" || one.Source.Name != one.Check {
				t.Errorf("%s/%s has the source %+v", one.Node, one.Check, one.Source)
			}
			seconds, nothing := availabilityOf(journaled[one.Node+"/"+one.Check], since, until)
			got := [5]float64{one.OK, one.Warning, one.Critical, one.Unknown, one.WithoutData}
			for i, want := range append(seconds[:], nothing) {
				if math.Abs(got[i]-want) > 0.001 {
					t.Errorf("%s/%s from %s to %s: %v, want %v and %v", one.Node, one.Check, since, until, got, seconds, nothing)
					break
				}
			}
		}
	}
	x.expectOutput("", "report availability --check never --since 1m --until 10s", 0, "100.000 % in total, of ")
	x.expectOutput("", "report availability --since 9000d --until 8000d", 0, "no event has results from ")
}

// TestPastEventsShowPastOutputs lists events at a past time, and expects each check's output from the time, not
// later.
func TestPastEventsShowPastOutputs(t *testing.T) {
	rig, x := openLoggedInTerminal(t)
	rig.RunDispatcher()
	rig.DeclareNodes("default", nil, "web01")
	rig.Apply(disk)
	for _, r := range []struct {
		status model.Status
		output string
	}{{model.OK, "OK one"}, {model.OK, "OK two"}, {model.Critical, "BAD three"}, {model.Critical, "BAD four"}, {model.Critical, "WORSE 5"}, {model.Critical, "WORSE 6"}} {
		rig.RecordResult("default", "web01", "disk", r.status, r.output)
		rig.Advance(time.Hour)
	}
	rig.AwaitHistory()
	for age, want := range map[string]string{"5h30m": "-", "4h30m": "-", "3h30m": "BAD three", "2h30m": "BAD four", "1h30m": "WORSE 5", "10m": "WORSE 6"} {
		out := x.expectOutput("", "get events --at "+age, 0)
		if fields := strings.TrimSpace(strings.Split(out, "\n")[1]); !strings.HasSuffix(fields, "  "+want) {
			t.Errorf("%s ago: want %q in\n%s", age, want, out)
		}
	}
}
