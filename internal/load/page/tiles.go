package page

import (
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/load/report"
)

// tile is one key figure.
type tile struct{ Name, Value, Unit, Note string }

// split parts a figure from its unit.
func split(name, text, note string) tile {
	value, unit, _ := strings.Cut(text, nb)
	return tile{name, value, unit, note}
}

func tiles(rep *report.Report) []tile {
	var list []tile
	add := func(there bool, t tile) {
		if there {
			list = append(list, t)
		}
	}
	b, beyond := rep.Balance, rep.BeyondLinger
	_, _, meant := rep.Offered()
	add(rep.Rate > 0, tile{strings.ToUpper(done(rep)[:1]) + done(rep)[1:], count(rep.Rate), "/s", fmt.Sprintf("of %s offered", count(meant))})
	note := "later than agents wait for others"
	if rep.Plan.Linger > 0 {
		note = fmt.Sprintf("the linger is %s", bare(millis)(rep.Plan.Linger))
	}
	add(beyond.P50 > 0, split("Beyond linger p50", millis(beyond.P50), note))
	add(beyond.P99 > 0, split("Beyond linger p99", millis(beyond.P99), note))
	add(beyond.P999 > 0, split("Beyond linger p99.9", millis(beyond.P999), "at most "+millis(beyond.Max)))
	if l := rep.Latency; rep.Asked() {
		add(l.P50 > 0, split("Latency p50", millis(l.P50), "from the second of the request"))
		add(l.P99 > 0, split("Latency p99", millis(l.P99), "at most "+millis(l.Max)))
	}
	lost := "of " + count(float64(b.Sent)) + " sent"
	if b.Refused > 0 {
		lost += fmt.Sprintf(", %s refused", count(float64(b.Refused)))
	}
	add(true, tile{"Lost", count(float64(b.Missing)), "", lost})
	add(rep.Server.MicrosPerItem > 0, tile{"Server CPU", figures(rep.Server.MicrosPerItem), "µs", fmt.Sprintf("per result; %s in all", ofCores(rep.Server.Cores))})
	add(rep.Server.MicrosPerItem == 0 && rep.Server.Cores > 0, tile{"Server CPU", trim(rep.Server.Cores, 2), "cores", "in the mean"})
	add(rep.SessionBytes > 0, split("Memory per agent", size(rep.SessionBytes), "on the server, before any result"))
	add(rep.StateBytes > 0, split("Memory per state", size(rep.StateBytes), "of "+count(float64(rep.States))+" event states"))
	if o := worstOutage(rep); o != nil && o.Seconds < 0 {
		list = append(list, tile{"All back", "not", "", "before the run ended"})
	} else if o != nil {
		list = append(list, split("All back", seconds(o.Seconds), fmt.Sprintf("after %s lost their sessions", plural(o.Lost, "agent"))))
	}
	return list
}

// costSection is what the server pays per agent and per thousand results.
func costSection(rep *report.Report) section {
	t := newTable("", "", "per agent", "per 1,000 results")
	agents, thousands := float64(rep.Plan.Agents), float64(rep.Results)/1000
	if agents == 0 || thousands == 0 {
		return section{}
	}
	span := max(rep.Plan.Duration, 1)
	if rep.Rate > 0 {
		span = float64(rep.Results) / rep.Rate // what was measured of it
	}
	row := func(name string, total float64, unit func(float64) string, per string) {
		if total > 0 {
			t.add(name, unit(total/agents/span)+per, unit(total/thousands))
		}
	}
	if cores := rep.Server.Cores; cores > 0 {
		t.add("CPU of the server", millis(1000*cores/agents)+"/s", millis(1000*cores*span/thousands))
	}
	if rep.SessionBytes > 0 {
		t.add("Memory of a session, before any result", size(rep.SessionBytes), "–")
	}
	if rep.Server.RSS > 0 {
		t.add("Memory of the server at the end, all in all", size(float64(rep.Server.RSS)/agents), "–")
	}
	m := rep.Metrics
	bytesText := func(v float64) string { return size(v) }
	row("Received from agents (of the WebSocket: without TLS and TCP)", m["muster_session_bytes_received_total"], bytesText, "/s")
	row("Written by the journal", m["muster_journal_written_bytes_total"], bytesText, "/s")
	row("Written by snapshots", m["muster_snapshot_written_bytes_total"], bytesText, "/s")
	if d := rep.Disk; d != nil {
		row("Written to disk in all, whole pages", float64(d.Written), bytesText, "/s")
	}
	row("fsyncs of the journal", m["muster_journal_syncs_total"], figures, "/s")
	row("Frames received", m["muster_session_frames_total"], figures, "/s")
	if in := rep.Inside; in != nil {
		t.add("Allocations of the server", "–", count(1000*in.Allocs))
		t.add("Allocated by the server", "–", size(1000*in.AllocBytes))
	}
	if rep.AgentBytes > 0 {
		t.add("Memory of the load generator", size(rep.AgentBytes), "–")
	}
	if rep.Goroutines > 0 {
		t.add("Goroutines of the load generator", figures(rep.Goroutines), "–")
	}
	s := section{ID: "cost", Title: "What it costs", Tables: t.list()}
	if c := rep.Calls; c != nil {
		s.Text = append(s.Text, fmt.Sprintf("Each second the server read %s times and wrote %s times (sockets and files) and called fsync %s times; a commit of the journal held %s results from %s frames.",
			count(c.Reads), count(c.Writes), figures(c.Syncs), figures(c.ResultsPerCommit), figures(c.FramesPerCommit)))
	}
	if in := rep.Inside; in != nil {
		s.Text = append(s.Text, fmt.Sprintf("The server's garbage collector used %s.", ofCores(in.GC)))
		if share := rep.Server.LockShare; share > 0 {
			s.Text = append(s.Text, fmt.Sprintf("Its goroutines waited for locks for %s of the time that its processors had (what passed × GOMAXPROCS: 100 %% is as many waiting, all the time, as could run), those of the load generator for %s.",
				little(share), little(rep.Loader.LockShare)))
		} else {
			s.Text = append(s.Text, fmt.Sprintf("Within it %s goroutines waited for a lock in the mean.", trim(in.LockWait, 2)))
		}
	}
	if d := rep.Disk; d != nil && d.PerDay > 0 {
		s.Text = append(s.Text, fmt.Sprintf("At this rate it writes %s a day.", size(d.PerDay)))
	}
	return s
}
