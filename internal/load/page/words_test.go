package page

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/load/scenario"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*report.Report)
		want   string
		not    string
	}{
		{"phases of several rates", func(*report.Report) {}, "sent together 1,600 to 3,200 results a second for 110 s", ""},
		{"one rate", func(r *report.Report) { r.Phases = nil }, "sent together 1,600 results a second", ""},
		{"classes", func(*report.Report) {}, "200 agents (150 web, 50 db)", "checks each"},
		{"one class", func(r *report.Report) { r.Scenario = nil }, "200 agents with 40 checks each", ""},
		{"some with TLS", func(*report.Report) {}, "mutual TLS for 150 of them", ""},
		{"all with TLS", func(r *report.Report) { r.Scenario.Agents[1].TLS = true }, "over mutual TLS", ""},
		{"what is missing", func(*report.Report) {}, "2 are missing; of 8,000 event states one differs", "none was lost"},
		{"all there", func(r *report.Report) { r.Balance = &report.Balance{Sent: 7, Acknowledged: 7, Compared: 3} }, "Of 7 results none was lost and none counted twice", "missing"},
		{"not compared", func(r *report.Report) { r.Balance = &report.Balance{Sent: 7, Acknowledged: 7} }, "whether the server holds the others was not compared", "none was lost"},
		{"refused", func(r *report.Report) { r.Balance = &report.Balance{Sent: 7, Acknowledged: 5, Refused: 2, Compared: 3} }, "Of 7 results 2 were refused, none was lost", ""},
		{"an outage that did not end", func(r *report.Report) { r.Outages[0].Seconds = -1 }, "not all were back when the run ended", ""},
		{"many outages", func(r *report.Report) {
			r.Outages = []report.Outage{{Second: 1, Lost: 5, Seconds: 1}, {Second: 20, Lost: 9, Seconds: 4}, {Second: 30, Lost: 2, Seconds: 2}}
		}, "There were 3 outages. The worst: At 20 s 9 agents lost their sessions; all were back 4.00 s later.", ""},
		{"alone", func(*report.Report) {}, "", "not alone"},
		{"not alone", func(r *report.Report) { r.Others = 1.2 }, "others used 1.2 of its 2 cores", ""},
		{"a phase of faults", func(r *report.Report) { r.Phases[4].Kind = "fault" }, "sent together 1,600 to 2,400 results a second for 100 s", ""},
		{"an overload", func(r *report.Report) { r.Phases[2].Apart, r.Phases[4].Apart = true, true }, "sent together 1,600 to 2,400 results a second for 70 s", ""},
		{"left out", func(r *report.Report) { r.Operators, r.Scenario.Operators = nil, scenario.Operators{Lists: 2} }, "Not played, though the scenario has it: people at work.", "changes"},
		{"elsewhere", func(r *report.Report) { r.Server = report.Usage{} }, "to a server,", "same machine"},
		{"another system by ws://", func(r *report.Report) { r.Targeted, r.Plan.TLS = &report.Targeted{Name: "sensu"}, false }, ", without TLS.", "mutual"},
		{"another system by wss://", func(r *report.Report) { r.Targeted, r.Plan.TLS = &report.Targeted{Name: "sensu"}, true }, ", over TLS.", "mutual"},
		{"a system that asks", func(r *report.Report) { r.Targeted = &report.Targeted{Name: "sensu"} }, "Nothing is acknowledged.", "It acknowledged"},
		{"a system that is driven", func(r *report.Report) { r.Targeted = &report.Targeted{Name: "lines", Driven: true} }, "It acknowledged", "Nothing is acknowledged"},
	} {
		t.Run(c.what, func(t *testing.T) {
			rep := full()
			c.change(rep)
			got := strings.ReplaceAll(strings.Join(words(rep), " "), nb, " ")
			if !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("want %q, not %q, in: %s", c.want, c.not, got)
			}
		})
	}
}
