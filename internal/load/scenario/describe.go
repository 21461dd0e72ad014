package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Describe is the plan in words, a few lines: who sends what, for how long, what happens
// meanwhile, what must be reached.
func (s *Scenario) Describe() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("%s", s.FullTitle())
	for i := range s.Agents {
		say("- %s", s.describeClass(&s.Agents[i]))
	}
	for i := 0; i < len(s.Checks); {
		first := &s.Checks[i]
		var checks []string
		for ; i < len(s.Checks) && s.Checks[i].targets() == first.targets(); i++ {
			checks = append(checks, s.Checks[i].Check.describe())
		}
		say("- %s: %s", first.targets(), strings.Join(checks, ", "))
	}
	for i := range s.Proxies {
		say("- %s %s without an agent", Grouped(s.Proxies[i].Count), s.Proxies[i].Name)
	}
	connections := "no connections"
	if n := s.Sessions(); n > 0 {
		connections = Grouped(n) + " connections"
	}
	say("Sends %s; %s event states; %s.", s.signals(), Grouped(s.States()), connections)
	var phases []string
	for i := range s.Phases {
		phases = append(phases, s.Phases[i].describe())
	}
	say("Takes %s at most: %s.", clock(s.Duration()), strings.Join(phases, ", "))
	for i := range s.Faults {
		say("- %s", s.Faults[i].String())
	}
	for i := range s.Intent {
		say("- %s", s.Intent[i].String())
	}
	if o := s.Operators.describe(); o != "" {
		say("Meanwhile %s.", o)
	}
	if s.Stream != nil {
		say("A handler is notified of every result (%s connections), and comes back to the loader as a line.", Grouped(s.Stream.Connections))
	}
	if n := s.Server.Cores; n > 0 {
		cores := "1 core"
		if n > 1 {
			cores = Grouped(n) + " cores"
		}
		say("The server may use %s at once.", cores)
	}
	need := fmt.Sprintf("about %s of memory and %s cores together, and %s open files", model.Size(baseMemory/2+s.Memory()).Approximate(), s.cores(), Grouped(Files(s.Sessions(), true)))
	say("Server and loader need %s each.", need)
	return b.String()
}

// cores is about how much of cores server and loader take, at the highest rate; of steps:
// at the first.
func (s *Scenario) cores() string {
	most := 0.0
	for i := range s.Phases {
		most = max(most, s.Phases[i].Rates()[0])
	}
	return strconv.FormatFloat(max(0.1, (s.Rate()*most+s.KeepaliveRate())*usualMicros/1e6), 'f', 1, 64)
}

// signals is what is sent per second, in words.
func (s *Scenario) signals() string {
	var list []string
	add := func(rate float64, what string) {
		if rate > 0 {
			list = append(list, perSecond(rate)+" "+what)
		}
	}
	add(s.Rate(), "results/s")
	add(s.ValueRate(), "values/s")
	add(s.ComponentRate(), "components/s")
	if len(list) == 0 {
		add(s.KeepaliveRate(), "keepalives/s")
	}
	return strings.Join(list, ", ")
}

func (s *Scenario) describeClass(c *Class) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", Grouped(c.Count), c.Name)
	if len(c.Groups) > 0 {
		b.WriteString(" in " + strings.Join(c.Groups, ", "))
	}
	if c.TLS {
		b.WriteString(" with mutual TLS")
	}
	if c.Share > 1 {
		fmt.Fprintf(&b, ", %d to a connection", c.Share)
	}
	var parts []string
	if c.Recorded != nil && c.Recorded.head != nil {
		parts = append(parts, c.Recorded.describe())
	}
	for i := range c.Checks {
		if c.Recorded != nil {
			break
		}
		parts = append(parts, c.Checks[i].describe()+s.describeAbout(&c.Checks[i]))
	}
	for _, v := range c.Values {
		text := fmt.Sprintf("%d values %s every %s", max(1, v.Count), v.Name, v.Interval)
		if v.Dependents > 0 {
			text += fmt.Sprintf(" with %d dependent items each", v.Dependents)
		}
		parts = append(parts, text)
	}
	for _, p := range c.Policies {
		parts = append(parts, fmt.Sprintf("%s components of %s every %s", Grouped(p.Components), p.Name, p.Interval))
	}
	if c.Inventory > 0 {
		parts = append(parts, "an inventory of "+c.Inventory.Approximate())
	}
	if held := len(s.Held(c)) - len(c.Checks); held > 0 {
		parts = append(parts, "the checks of "+s.targeting(c))
	}
	if len(parts) == 0 {
		interval, _ := c.keepalive()
		parts = append(parts, "alive every "+interval.String())
	}
	b.WriteString(": " + strings.Join(parts, ", "))
	for _, churn := range [...]struct {
		what string
		rate Rate
	}{{"reconnect", c.Churn.Reconnects}, {"restart", c.Churn.Restarts}, {"are renamed", c.Churn.Renames}, {"go offline for " + c.Churn.OfflineFor.String(), c.Churn.Offline}} {
		if churn.rate != "" {
			fmt.Fprintf(&b, "; %s %s", churn.rate, churn.what)
		}
	}
	return b.String()
}

// targeting are the groups by which checks reach a class.
func (s *Scenario) targeting(c *Class) string {
	var names []string
	for _, p := range s.Held(c) {
		for _, g := range p.Groups {
			if !p.Own() && c.In(g) && !slices.Contains(names, g) {
				names = append(names, g)
			}
		}
	}
	return strings.Join(names, ", ")
}

func (k *Check) describe() string {
	text := fmt.Sprintf("%s every %s", k.Name, k.Interval)
	if k.Count > 1 {
		text = fmt.Sprintf("%d × %s", k.Count, text)
	}
	if k.Alert != "" {
		text += ", notified by " + k.Alert
	}
	if k.Output.Length() != 100 {
		text += fmt.Sprintf(" (%s)", k.Output.describe())
	}
	return text
}

// targets are whose agents run it, in words.
func (k *GroupCheck) targets() string {
	if len(k.Each) > 0 {
		return "each of " + strings.Join(k.Each, ", ")
	}
	return "in " + strings.Join(k.Groups, ", ")
}

func (o Output) describe() string {
	if o.Like != "" && o.Like != Digits {
		if o.Bytes == 0 {
			return "as check_" + o.Like + " says"
		}
		return "as check_" + o.Like + " says, " + o.Bytes.String()
	}
	return "outputs of " + model.Size(o.Length()).Approximate()
}

func (p *Phase) describe() string {
	text := p.Kind() + " " + p.Length().String()
	if p.Step > 0 {
		rates := p.Rates()
		return fmt.Sprintf("up to %d steps of %s from %s to %s", len(rates), p.Step, percent(rates[0]), percent(rates[len(rates)-1]))
	}
	switch {
	case p.Of != "":
		text += " at " + percent(p.Rate) + " of " + p.Of
	case p.Measured() && p.Rate != 0 && p.Rate != 1:
		text += " at " + percent(p.Rate)
	}
	if faster := p.describeFaster(); faster != "" {
		text += " with " + faster
	}
	if p.Settle > 0 {
		text += " (as before within " + p.Settle.String() + ")"
	}
	return text
}

// String is the fault in words: at 30s, for 60s: stop 5 of web.
func (f *Fault) String() string {
	text := "at " + f.At.String()
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	return text + ": " + f.What()
}

// What is the fault in words, without its time: stop 5 of web.
func (f *Fault) What() string {
	switch {
	case f.Stop != nil:
		return "stop " + f.Stop.String()
	case f.Hang != nil:
		return "hang " + f.Hang.String()
	case f.Cut != nil:
		return "cut " + f.Cut.String()
	case f.Wrong != nil:
		return "wrong frames from " + f.Wrong.String()
	case f.Fail != nil:
		return fmt.Sprintf("%s is %s on %s", f.Fail.Check, f.Fail.Status, f.Fail.Pick.String())
	case f.Server != "":
		return "server " + f.Server
	}
	return "run " + strconv.Quote(f.Run)
}

// String is the change in words, with its time.
func (c *Change) String() string {
	text := "at " + c.At.String()
	if c.Every > 0 {
		text += " and every " + c.Every.String()
	}
	return text + ": " + c.What()
}

// What is the change in words, without its time: create 5 and delete 5 checks of web.
func (c *Change) What() string {
	var parts []string
	for _, n := range [...]struct {
		what string
		n    int
	}{{"create", c.Create}, {"change", c.Change}, {"delete", c.Delete}} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", n.what, n.n))
		}
	}
	text := strings.Join(parts, " and ") + " " + c.Kind + "s"
	if of := whose(c.Class, c.Group); of != "" {
		text += " of " + of
	}
	return text
}

func (o Operators) describe() string {
	var parts []string
	if o.Lists > 0 {
		parts = append(parts, fmt.Sprintf("%d people list at %s each", o.Lists, o.Pause))
	}
	if o.Watches > 0 {
		parts = append(parts, fmt.Sprintf("%d watch", o.Watches))
	}
	if o.Applies != "" {
		parts = append(parts, string(o.Applies)+" resources are applied")
	}
	if o.Silences != "" {
		parts = append(parts, string(o.Silences)+" silences are made")
	}
	if o.Runs != "" {
		parts = append(parts, string(o.Runs)+" commands are run at once")
	}
	if o.Facts != "" {
		parts = append(parts, string(o.Facts)+" facts change")
	}
	return strings.Join(parts, ", ")
}

// Grouped is a whole number with its thousands apart: 32,000.
func Grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// perSecond shows what can be told of a rate.
func perSecond(rate float64) string {
	if rate >= 10 {
		return Grouped(int(rate + 0.5))
	}
	return strconv.FormatFloat(rate, 'g', 2, 64)
}

func percent(share float64) string {
	return strconv.FormatFloat(share*100, 'g', 4, 64) + " %"
}

func clock(d time.Duration) string { return model.Duration(d).String() }

// Brief is the plan in one line: 4,000 agents, 32,000 results/s, 10m50s.
func (s *Scenario) Brief() string {
	return fmt.Sprintf("%s agents, %s, %s at most", Grouped(s.Nodes("")), s.signals(), clock(s.Duration()))
}
