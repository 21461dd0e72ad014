package sizing

import (
	"fmt"

	"github.com/muster-fleet/muster/internal/load/report"
)

// grows says what grows with what, each with the run that shows it.
func (p *page) grows() {
	p.say("## What grows with what\n")
	tls, plain, states := p.reports["storm-15k-tls"], p.reports["storm-15k"], p.reports["states-1.5m"]
	if tls != nil && plain != nil && states != nil {
		p.say("- **Memory** grows with agents and with event states (a check on a node): a session with mutual TLS takes %s (%s), one without %s (%s), an event state %s (%s).",
			bytes(tls.SessionBytes), link("storm-15k-tls"), bytes(plain.SessionBytes), link("storm-15k"), bytes(states.StateBytes), link("states-1.5m"))
	}
	dense := p.reports["sensu-4000x40x5s"]
	if sparse := p.reports["rate-1k"]; dense != nil && sparse != nil {
		p.say("- **Cores** grow with frames more than with results: what an agent has to say at about the same time goes in one. A result takes %s µs of the server's CPU where %s of them share a frame (%s), "+
			"and %s µs where it is %s and a server has little to do (%s).", digits(dense.Server.MicrosPerItem), digits(dense.Batch.Mean), link("sensu-4000x40x5s"),
			digits(sparse.Server.MicrosPerItem), digits(sparse.Batch.Mean), link("rate-1k"))
		a, b := figuresOf(sparse, 0), figuresOf(dense, 0)
		p.say("- **Fsyncs** of the journal do not grow: many results share one, %s a second for %s results/s (%s) and %s for %s (%s).", digits(sparse.Calls.Syncs), digits(a.results), link("rate-1k"),
			digits(dense.Calls.Syncs), digits(b.results), link("sensu-4000x40x5s"))
	}
	if with, without := p.reports["rate-16k-tls"], p.reports["rate-16k"]; with != nil && without != nil {
		p.say("- **TLS** costs memory and connecting, hardly results: %s µs each with it (%s), %s without (%s).", digits(with.Server.MicrosPerItem), link("rate-16k-tls"), digits(without.Server.MicrosPerItem), link("rate-16k"))
	}
	if back := backAfter(tls); back > 0 {
		p.say("- **Coming back** grows with agents: %s with mutual TLS that are all cut at once are back after %s s, with the simulated agents on the same machine (%s).",
			grouped(float64(tls.Plan.Agents)), digits(back), link("storm-15k-tls"))
	}
	if dense != nil && dense.Disk != nil && dense.Results > 0 {
		d := dense.Disk
		p.say("- **Disk** writes grow with results and with changes of status: of %s a result, %s are the journal's, %s those of snapshots, the rest history's and the rounding up to whole pages (%s). "+
			"Snapshots grow with event states. What is kept does not grow with time: the journal is cut as snapshots are saved.",
			bytes(d.PerResult), bytes(float64(d.Journal)/float64(dense.Results)), bytes(float64(d.Snapshots)/float64(dense.Results)), link("sensu-4000x40x5s"))
	}
	p.say("")
}

// backAfter is how long it took until all agents were back, in seconds; 0: not told.
func backAfter(rep *report.Report) (seconds float64) {
	if rep == nil {
		return 0
	}
	for _, o := range rep.Outages {
		seconds = max(seconds, o.Seconds)
	}
	return seconds
}

// room is how many agents one server lets in on the machine of the runs.
func (p *page) room() int {
	if rep := p.limits(); rep != nil {
		return int(rep.Metrics["muster_connections_limit"])
	}
	return 1 << 30
}

// limits is the latest report that tells them.
func (p *page) limits() *report.Report {
	for _, name := range append([]string{sizeName(10_000), sizeName(4000), sizeName(1000)}, "sensu-4000x40x5s") {
		if rep := p.reports[name]; rep != nil && rep.Environment != nil && rep.Environment.Limits["open files"] != "" && rep.Metrics["muster_connections_limit"] > 0 {
			return rep
		}
	}
	return nil
}

// tooMany says what can be said of a size that does not fit, and does not pretend.
func (p *page) tooMany() {
	const agents = 40_000
	rep := p.limits()
	if rep == nil || p.reports[sizeName(agents)] != nil || agents <= p.room() {
		return
	}
	p.say("## %s agents\n", grouped(agents))
	var files int
	fmt.Sscan(rep.Environment.Limits["open files"], &files)
	needs := ""
	if files > p.room() {
		needs = fmt.Sprintf(" With a limit of %s or more (`LimitNOFILE=` of a unit) one would let them in; that has not been measured here.", grouped(float64(agents+files-p.room())))
	}
	p.say("%s agents do not fit one server process where a process may have %s files open, as on the machine of these runs: of these it keeps %s for its stores and for people, and lets %s connections in.%s\n",
		grouped(agents), grouped(float64(files)), grouped(float64(files-p.room())), grouped(float64(p.room())), needs)
	p.say("Neither do the 36,000 and 40,000 agents of `sensu-36000x38x10s` and `sensu-40000x38x10s`: here those need more than one server, and several servers for one fleet come with a later version. "+
		"The largest shipped fleet that such a machine plays is `muster-15000x4x10s`, 15,000 agents with mutual TLS (%s).\n", link("muster-15000x4x10s"))
	states, tls := p.reports["states-1.5m"], p.reports["storm-15k-tls"]
	if states == nil || tls == nil {
		return
	}
	p.say("What has been measured:\n")
	p.say("- %s event states, %s for each, %s of memory in all (%s).", grouped(float64(states.States)), bytes(states.StateBytes), bytes(figuresOf(states, 0).memory), link("states-1.5m"))
	p.say("- %s sessions with mutual TLS at once: %s for each (%s).", grouped(float64(tls.Plan.Agents)), bytes(tls.SessionBytes), link("storm-15k-tls"))
	each := float64(p.shape.States())/float64(p.shape.Nodes("")) + 1 // and its keepalive
	sum := agents*tls.SessionBytes + agents*each*states.StateBytes
	p.say("")
	p.say("Reckoned from these two, not measured: %s agents of the shape above take %s × %s for sessions and %s × %s for event states, %s together, beside what a server takes by itself. "+
		"Nothing is said of cores, disk and network: no run of that size shows them.\n", grouped(agents), grouped(agents), bytes(tls.SessionBytes), grouped(agents*each), bytes(states.StateBytes), bytes(sum))
}

// own is how to size one's own.
func (p *page) own() {
	p.say("## Your own\n")
	p.say("No installation has that shape. With one that runs, take its own; without, write down what you expect ([load tests](load.md)):\n")
	p.say("    muster load from-fleet -A -o mine.yaml     # the shape of your installation, names hashed; a viewer may do it")
	p.say("    muster load size -f mine.yaml              # on the machine in question: what it carries, what 1× uses, what breaks first\n")
	p.say("Simulated agents take cores and memory of the machine on which `size` runs; what it carries without them is more. Its answer says which of them broke.\n")
}

// repeat is how the figures are made again.
func (p *page) repeat() {
	p.say("## Run it again\n")
	p.say("The rows of the table, each some eleven minutes on a machine that does nothing else, and this page:\n")
	for _, agents := range sizes() {
		if agents <= p.room() {
			p.say("    bin/muster load run %s --scale %g --out bench/out/%s && cp bench/out/%s/run.json bench/results/%s.json", Scenario, float64(agents)/float64(p.shape.Nodes("")),
				sizeName(agents), sizeName(agents), sizeName(agents))
		}
	}
	p.say("    make docs\n")
	p.say("The other runs are those of [bench](../bench/README.md): `make measure SCENARIOS=\"rate-1k rate-16k rate-16k-tls storm-15k storm-15k-tls states-1.5m\"`, and `muster load run sensu-4000x40x5s`.")
}
