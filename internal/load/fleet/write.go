package fleet

import (
	"bytes"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/load/number"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
)

// YAML is the scenario as a file, with comments for who reads it. It was checked as
// muster load lint does.
func (s *Shape) YAML() ([]byte, error) {
	var b bytes.Buffer
	s.head(&b)
	fmt.Fprintf(&b, "scenario: %s\ntitle: %q\nseed: %d\nagents:\n", scenario.Version, s.Scenario.Title, s.Scenario.Seed)
	for i := range s.classes {
		s.writeClass(&b, &s.classes[i], &s.Scenario.Agents[i])
	}
	if len(s.shared) > 0 {
		b.WriteString("checks: # of groups: whoever is in several of them runs it once\n")
	}
	for i := range s.Scenario.Checks {
		k := &s.Scenario.Checks[i]
		fmt.Fprintf(&b, "  - %s # %s on %s\n", strings.TrimSuffix(flow(&k.Check), "}")+", groups: ["+strings.Join(k.Groups, ", ")+"]}", s.shared[i].line.behind(), plural(s.shared[i].nodes, "node"))
	}
	b.WriteString("phases:\n")
	for i := range s.Scenario.Phases {
		p := &s.Scenario.Phases[i]
		if p.Warmup > 0 {
			fmt.Fprintf(&b, "  - {%s: %s, warmup: %s}\n", p.Kind(), p.Length(), p.Warmup)
			continue
		}
		fmt.Fprintf(&b, "  - %s: %s\n", p.Kind(), p.Length())
	}
	b.WriteString("objectives: # what you need of it: muster load size stops where one is missed\n")
	for name, limit := range s.Scenario.Objectives {
		fmt.Fprintf(&b, "  %s: %s\n", name, limit)
	}
	if _, err := scenario.Parse("the scenario", b.Bytes()); err != nil {
		return nil, fmt.Errorf("what was read of the fleet makes no scenario: %w", err)
	}
	return b.Bytes(), nil
}

// head says where the file comes from, what it shows, and what could not be known.
func (s *Shape) head(b *bytes.Buffer) {
	f := s.fleet
	say := func(format string, args ...any) { comment(b, fmt.Sprintf(format, args...)) }
	say("The shape of a live installation, written by muster load from-fleet on %s from a server of version %s: %s nodes, %s checks, %s event states.",
		f.At.Format("2 January 2006, 15:04 UTC"), f.Version, number.Count(len(f.Nodes)-f.Never-f.Gone), number.Count(len(f.Checks)), number.Count(len(f.States)))
	secret := "a key that was not kept"
	if s.keyed {
		secret = "a key of whoever wrote it"
	}
	say("Names are hashes with %s. No outputs, labels and commands are in it: only counts, times, lengths and shares.", secret)
	b.WriteString("#\n")
	say("Nodes whose checks have about the same intervals and lengths are one class: %s in %d. The largest shape of each class sends %s of all results; the rest is of smaller ones, put with the class that is nearest.",
		plural(s.shapes, "shape"), len(s.classes), percent(s.exact))
	say("The file's rate is %s results/s; the installation's, by its intervals, is %s. Where numbers of checks did not come out whole, their interval was fitted, so that the rate is kept.",
		perSecond(s.Scenario.Rate()), perSecond(s.rate))
	b.WriteString("#\n")
	for _, text := range s.unknown() {
		say("- %s", text)
	}
}

// unknown is what was left out, could not be known, or was assumed.
func (s *Shape) unknown() (list []string) {
	f := s.fleet
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if f.Never+f.Gone > 0 {
		say("Left out: %s that never had an agent, %s of which nothing was heard for a day.", plural(f.Never, "node"), number.Count(f.Gone))
	}
	if f.Others > 0 {
		say("Not in it: %s of other namespaces (-A takes all).", plural(f.Others, "node"))
	}
	if f.Unknown > 0 {
		say("Not in it: %s of checks that are not declared any more.", plural(f.Unknown, "event state"))
	}
	if all, kept := s.inGroups(); all > 0 {
		say("Nodes are in %s; %s are in the file: of each class those that at least half of its nodes are in, %d at most.", plural(all, "group"), number.Count(kept), groupsOfClass)
	}
	if len(s.shared) > 0 {
		checks := 0
		for _, x := range s.shared {
			checks += len(x.line.checks)
		}
		say("%s that target groups of the file, and that nearly all nodes of exactly the classes in them run, stand in it once (%d lines at most), behind the classes. All other checks target their class.", plural(checks, "check"), sharedLines)
	}
	away := 0
	for i := range s.classes {
		away += s.classes[i].away
	}
	if away > 0 {
		say("%s had no session when this was read; they are played as the others, with TLS.", plural(away, "node"))
	}
	if f.At.After(f.Since) {
		say("Reconnects and restarts are estimated from how old sessions and agents were; the server could tell for the last %s.", about(f.At.Sub(f.Since)))
	} else {
		say("Reconnects and restarts are not known, and not played: the server had started less than %s before.", about(settling))
	}
	say("Outages are the problems of keepalives in the last %s; shorter silences than the keepalive's timeout are counted as reconnects.", about(f.Day))
	if f.Asked > 0 {
		say("How often a status changes is from the history of %s that changed in the last %s: %.3g changes each.", plural(f.Asked, "event state"), about(f.Day), f.PerChanged)
	} else {
		say("No status changed in the last %s, but for those that flap.", about(f.Day))
	}
	say("Where states change more often than the share of those that were not OK allows, as many more are played as critical.")
	say("States flap where at least half of their last results changed the status.")
	say("Outputs are digits, all as long as the mean of their line; p50 and p99 stand beside it. How long results wait for company on real agents is the default, 500ms.")
	say("Not read, and not played: people who look and change things, notifications. See operators and intent in docs/load-reference.md.")
	return list
}

// comment writes a text as lines that begin with #.
func comment(b *bytes.Buffer, text string) {
	const width = 118
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
			if strings.HasPrefix(text, "- ") {
				line = "#  "
			}
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

func (s *Shape) writeClass(b *bytes.Buffer, c *class, x *scenario.Class) {
	note := "its nodes are all alike"
	if c.others > 0 {
		note = fmt.Sprintf("%s alike; %s of %s were put with them: %s of the results", number.Count(c.alike),
			number.Count(c.nodes-c.alike), plural(c.others, "other shape"), percent(c.apart))
	}
	if c.odd > 0 {
		note += fmt.Sprintf("; %s with another keepalive", number.Count(c.odd))
	}
	fmt.Fprintf(b, "  - name: %s # %s\n    count: %d\n", x.Name, note, x.Count)
	if len(x.Groups) > 0 {
		fmt.Fprintf(b, "    groups: [%s]\n", strings.Join(x.Groups, ", "))
	}
	if x.TLS {
		b.WriteString("    tls: true\n")
	}
	fmt.Fprintf(b, "    keepalive: {interval: %s, timeout: %s}\n", x.Keepalive.Interval, x.Keepalive.Timeout)
	if len(x.Checks) > 0 {
		b.WriteString("    checks:\n")
	}
	for i := range x.Checks {
		fmt.Fprintf(b, "      - %s # %s\n", flow(&x.Checks[i]), c.lines[i].behind())
	}
	if churn := flowChurn(&x.Churn); churn != "" {
		fmt.Fprintf(b, "    churn: {%s}\n", churn)
	}
}

// behind says what a line stands for.
func (l *line) behind() string {
	_, median, p99 := l.sizes()
	return fmt.Sprintf("%s, outputs p50 %s, p99 %s", plural(len(l.checks), "check"), model.Size(median).Approximate(), model.Size(p99).Approximate())
}

// flow is a check on one line.
func flow(k *scenario.Check) string {
	parts := []string{"name: " + k.Name}
	if k.Count > 1 {
		parts = append(parts, fmt.Sprintf("count: %d", k.Count))
	}
	parts = append(parts, "interval: "+k.Interval.String())
	if k.TTL > 0 {
		parts = append(parts, "ttl: "+k.TTL.String())
	}
	parts = append(parts, "output: {bytes: "+k.Output.Bytes.String()+"}")
	if len(k.Status) > 0 {
		var states []string
		for name, share := range k.Status {
			states = append(states, name+": "+exact(share))
		}
		sort.Strings(states)
		parts = append(parts, "status: {"+strings.Join(states, ", ")+"}")
	}
	if k.Changes > 0 {
		parts = append(parts, "changes: "+exact(k.Changes))
	}
	if k.Flapping > 0 {
		parts = append(parts, "flapping: "+exact(k.Flapping))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func flowChurn(c *scenario.Churn) string {
	var parts []string
	for _, r := range [...]struct {
		name string
		rate scenario.Rate
	}{{"reconnects", c.Reconnects}, {"restarts", c.Restarts}, {"offline", c.Offline}} {
		if r.rate != "" {
			parts = append(parts, r.name+": "+string(r.rate))
		}
	}
	if c.Offline != "" {
		parts = append(parts, "offlineFor: "+c.OfflineFor.String())
	}
	return strings.Join(parts, ", ")
}

func exact(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1000)/10, 'f', -1, 64) + " %"
}

func perSecond(rate float64) string {
	if rate >= 10 {
		return number.Count(rate)
	}
	return strconv.FormatFloat(rate, 'g', 2, 64)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number.Count(n) + " " + what + "s"
}

// about is a time to the minute, behind "the last".
func about(d time.Duration) string {
	switch {
	case d >= day:
		return "day"
	case d >= 90*time.Minute:
		return plural(int(d.Round(time.Hour)/time.Hour), "hour")
	case d >= 90*time.Second:
		return plural(int(d.Round(time.Minute)/time.Minute), "minute")
	}
	return "minute"
}
