package judge_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/load/judge"
	"github.com/muster-fleet/muster/internal/load/observe"
	"github.com/muster-fleet/muster/internal/load/plan"
	"github.com/muster-fleet/muster/internal/load/report"
)

// ping plays a small driver: it sends numbers to a server that must answer each, and writes its observations to a log.
// Its seconds are as long as ten pings.
func ping(server net.Conn, pings int, log *observe.Log) {
	start := &observe.Checked{Version: observe.Version, Report: &report.Report{Schema: report.Schema, Title: "pings", Began: time.Now(), Plan: report.Plan{MaxLag: 1000}}}
	log.Append(observe.Line{Checked: start})
	log.Append(observe.Line{Score: []plan.Part{{To: int64(pings/10) * 1e9, Rate: 1, Measured: true}}})
	ledger := observe.Ledger{Name: "pinger", Set: -1}
	answers := bufio.NewReader(server)
	for second := 0; int(ledger.Sent) < pings; second++ {
		tally := &observe.Tally{Results: 10}
		s := observe.CheckSecond{Number: second, Sample: &report.Sample{Second: second + 1, Phase: "steady"}, Parts: map[int]*observe.Tally{0: tally}, Offered: map[int]uint64{second: 10}}
		for range 10 {
			sent := time.Now()
			ledger.Sent++
			fmt.Fprintf(server, "%d\n", ledger.Sent)
			answer, err := answers.ReadString('\n')
			if err != nil || strings.TrimSpace(answer) != fmt.Sprint(ledger.Sent) {
				continue
			}
			ledger.Acked++
			tally.Acked++
			tally.Current++
			tally.Whole.Record(int64(time.Since(sent)), 1)
		}
		log.Append(observe.Line{Check: &s})
	}
	log.Append(observe.Line{Kept: &observe.Kept{Ledger: &ledger}})
	log.Append(observe.Line{Measured: &observe.Measured{}})
}

// echo answers each line, except line but.
func echo(c net.Conn, but int) {
	lines := bufio.NewScanner(c)
	for n := 1; lines.Scan(); n++ {
		answer := lines.Text()
		if n == but {
			answer = "-"
		}
		_, _ = io.WriteString(c, answer+"\n")
	}
}

// TestToyDriver plays a driver of another protocol, and expects that the judge of all drivers finds one unanswered ping
// of a hundred.
func TestToyDriver(t *testing.T) {
	for but, want := range map[int]string{0: "", 57: "1 results were sent and neither acknowledged nor refused"} {
		log := observe.NewLog("", nil)
		client, server := net.Pipe()
		go echo(server, but)
		ping(client, 100, log)
		_ = client.Close()
		rep, err := judge.Checks(log.Checks())
		if err != nil || rep.OK() != (want == "") || strings.Join(rep.Verdict, "; ") != want || rep.Balance.Sent != 100 || len(rep.Samples) != 10 || rep.Rate < 9 || rep.Latency.Max <= 0 || len(rep.Phases) != 2 {
			t.Errorf("%v, %q, %+v, rate %v, %+v", err, rep.Verdict, rep.Balance, rep.Rate, rep.Phases)
		}
	}
}
