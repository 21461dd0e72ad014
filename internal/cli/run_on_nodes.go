package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// Exit codes of muster run.
const (
	exitNotOK  = 20 // a run ended with another status than OK
	exitNotRun = 21 // a run did not start, or its end is unknown
)

// runFlags holds the flags of muster run, and the API request made from the flags.
type runFlags struct {
	v1.RunRequest
	command, timeout string
	on, except       []string
	oneOutput        bool
}

// runCommand makes the command muster run, which runs a check, directive or command on many nodes now.
func runCommand(s *commandLine) *cobra.Command {
	f := &runFlags{}
	return s.buildCommand(command{
		use: "run [CHECK]", short: "Run a check, directive or command now, on many nodes at once",
		args: cobra.MaximumNArgs(1), complete: completeFirstArgument(s.completeNames(kind.Check().KindInfo)), flags: f.registerFlags, check: f.buildRequest,
		run: func(c *commandCall) error {
			if err := f.findNames(c); err != nil {
				return err
			}
			p := &runPrinter{commandCall: c, oneOutput: f.oneOutput, nodes: map[string]*nodeRunProgress{}}
			if err := c.api.Run(c.ctx, f.RunRequest, p.printServerLine); err != nil {
				if nodes := p.nodesStillRunning(); len(nodes) > 0 && !c.Format.IsForPrograms() {
					c.Notef(2, "cancelled on %s: %s", model.CountNoun(len(nodes), "node"), firstNodeNames(nodes))
				}
				return err
			}
			switch n := p.counts; {
			case n.Refused+n.EndUnknown > 0:
				return &exitError{exitNotRun}
			case n.OK < n.Nodes:
				return &exitError{exitNotOK}
			}
			return nil
		},
	})
}

// registerFlags adds the flags of muster run.
func (f *runFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.command, "command", "", "command line for the shell of the nodes, run as the agent's user")
	flags.StringVar(&f.Directive, "directive", "", "directive to run, in its mode on each node")
	flags.StringArrayVar(&f.on, "on", nil, targetsHelp)
	flags.StringArrayVar(&f.except, "except", nil, "nodes to leave out, in the format of --on")
	flags.StringVar(&f.timeout, "timeout", "0", "timeout of a command (0: 30s), or of the wait for a check or directive (0: its timeout)")
	flags.IntVar(&f.Parallel, "parallel", 50, "number of nodes that run at once")
	flags.IntVar(&f.MaxOutput, "max-output", model.DefaultOutputBytes, "maximum bytes of output per node")
	flags.BoolVar(&f.oneOutput, "together", false, "show equal outputs once, at the end")
	flags.BoolVarP(&f.Yes, "yes", "y", false, "permit more nodes than --max-affected")
	flags.IntVar(&f.MaxAffected, "max-affected", 0, "largest number of nodes without --yes (0: a fifth of all, at least 50)")
}

// buildRequest converts flags and arguments to the API request to run a check or command.
func (f *runFlags) buildRequest(c *commandCall) (err error) {
	if f.Targets, err = parseTargets("on", f.on); err != nil {
		return err
	}
	except, err := parseTargets("except", f.except)
	if err != nil {
		return err
	}
	isCommand := c.cmd.Flags().Changed("command")
	switch {
	case f.Directive != "" && (isCommand || len(c.args) > 0):
		return model.Errorf(model.Invalid, "--directive excludes a check and --command").WithHint("muster run --directive %s --on NODE", f.Directive)
	case len(c.args) == 0 && !isCommand && f.Directive == "":
		return model.Errorf(model.Invalid, "a check, --directive or --command is missing").WithHint("a check: muster run CHECK --on NODE. A directive: muster run --directive NAME --on NODE. A command: muster run --command LINE --on NODE")
	case len(c.args) > 0 && isCommand:
		return model.Errorf(model.Invalid, "the check %s and --command exclude each other", c.args[0]).WithHint("quote a command with spaces: muster run --command 'df /var' --on NODE")
	case isCommand && f.Targets == nil:
		return model.Errorf(model.Invalid, "--on is missing: name the nodes on which the command must run").WithHint("--on: expected %s", targetsHelp)
	case except != nil && f.Targets == nil:
		return model.Errorf(model.Invalid, "--except is valid only together with --on").WithHint("--on all, or: --on %s", targetsHelp)
	case isCommand:
		f.Command = &model.Command{Shell: f.command}
	case f.Directive == "":
		f.Check = c.args[0]
	}
	if except != nil {
		f.Targets.Except = except
	}
	timeout, err := model.ParseDuration(f.timeout)
	if err != nil {
		return model.Errorf(model.Invalid, "--timeout: %w", err)
	}
	f.TimeoutMs = time.Duration(timeout).Milliseconds()
	return nil
}

// findNames resolves the check, nodes and groups that the user named, and the namespace of the run. The run
// gets that namespace, or "shared" for several.
func (f *runFlags) findNames(c *commandCall) error {
	type ref struct {
		kind model.KindInfo
		name *string
	}
	var refs []ref
	namespaces, conditions := map[string]bool{}, false
	if f.Check != "" {
		refs = append(refs, ref{kind.Check().KindInfo, &f.Check})
	}
	if f.Directive != "" {
		refs = append(refs, ref{kind.Directive().KindInfo, &f.Directive})
	}
	for t := f.Targets; t != nil; t = t.Except {
		for i := range t.Nodes {
			refs = append(refs, ref{kind.Node().KindInfo, &t.Nodes[i]})
		}
		for i := range t.Groups {
			refs = append(refs, ref{kind.Group().KindInfo, &t.Groups[i]})
		}
		conditions = conditions || t.Where != ""
	}
	for _, r := range refs {
		namespace, name, err := c.findObject(r.kind, *r.name)
		if err != nil {
			return err
		}
		*r.name = namespace + "/" + name
		if namespace != model.SharedNamespaceName {
			namespaces[namespace] = true
		}
	}
	if conditions || len(namespaces) == 0 {
		namespaces[c.targetNamespace()] = true
	}
	f.Namespace = model.SharedNamespaceName
	if len(namespaces) == 1 {
		f.Namespace = slices.Collect(maps.Keys(namespaces))[0]
	}
	for _, r := range refs {
		*r.name = strings.TrimPrefix(*r.name, f.Namespace+"/")
	}
	return nil
}

// runPrinter prints the streamed output of a check or command that runs on many nodes. Each line follows its
// node's name, or with --together equal outputs are printed only once. Programs get one line of JSON per line
// of the server.
type runPrinter struct {
	*commandCall
	oneOutput bool
	nodes     map[string]*nodeRunProgress
	names     []string // of nodes, in the order of their begin
	nameWidth int      // columns of the widest name so far
	counts    v1.RunCounts
}

// nodeRunProgress holds the unprinted output and the end of a run on one node.
type nodeRunProgress struct {
	pending string // output without its line end; with together all output
	printed bool   // whether any output was printed
	end     *v1.RunLine
}

// printServerLine prints one message of the server's streamed answer, a node's output or the end of its run. It
// is output of a node, or the end of its run.
func (p *runPrinter) printServerLine(l v1.RunLine) error {
	if l.Type == v1.RunSummary && l.Summary != nil {
		p.counts = *l.Summary
	}
	if p.Format.IsForPrograms() {
		return p.WriteDocument(l)
	}
	n := p.progressOfNode(l.Node)
	switch l.Type {
	case v1.RunStarted:
		return nil
	case v1.RunOutput:
		n.pending += l.Output
		for !p.oneOutput {
			text, rest, whole := strings.Cut(n.pending, "\n")
			if !whole {
				break
			}
			n.pending, n.printed = rest, true
			p.printNodeLine(l.Node, "%s", text)
		}
		return nil
	case v1.RunSummary:
		p.printSummary()
		return nil
	}
	n.end = &l
	if p.oneOutput {
		return nil
	}
	if n.pending != "" {
		n.printed = true
		p.printNodeLine(l.Node, "%s", n.pending)
	}
	if text := p.runEndText(&l, n.printed, true); text != "" {
		p.printNodeLine(l.Node, "%s", text)
	}
	return nil
}

// progressOfNode returns the state of the run on a named node, or nil for an empty name. The name comes from a
// line of the answer.
func (p *runPrinter) progressOfNode(name string) *nodeRunProgress {
	n := p.nodes[name]
	if n == nil && name != "" {
		n = &nodeRunProgress{}
		p.nodes[name] = n
		p.names = append(p.names, name)
		if w := screen.TextWidth(screen.CleanLine(name)); p.Width == 0 || w <= p.Width/2 {
			p.nameWidth = max(p.nameWidth, w)
		}
	}
	return n
}

// printNodeLine prints one line of output, prefixed with the name of its node
func (p *runPrinter) printNodeLine(node, format string, args ...any) {
	p.Printf("%s%s  %s\n", screen.Cell{Text: node, Colour: screen.Faint}, screen.PadToColumn(screen.CleanLine(node), p.nameWidth), p.Sprintf(format, args...))
}

// runEndText returns a text about the end of a run on one node, such as an exit code. It is "" if the run was OK and
// its output was printed.
func (p *runPrinter) runEndText(l *v1.RunLine, printed, duration bool) screen.PaintedText {
	switch {
	case l.Type == v1.RunRefused || l.Type == v1.RunLost:
		return p.Sprintf("%s%s", screen.Cell{Text: strings.ToUpper(l.Type), Colour: screen.Purple}, textIf(l.Reason != "", ": "+l.Reason))
	case l.Status == nil, *l.Status == model.OK && printed && l.Cut == 0:
		return ""
	}
	text := textIf(duration, " after "+(time.Duration(l.DurationMs)*time.Millisecond).String())
	text += textIf(l.Cut > 0, fmt.Sprintf(" (%d bytes of output were truncated)", l.Cut))
	return p.Sprintf("%s%s", statusCell(*l.Status), text)
}

// printSummary prints for each result, such as CRITICAL, the number of nodes with the result. With the flag
// --together it first prints all outputs.
func (p *runPrinter) printSummary() {
	if p.oneOutput {
		p.printEqualOutputs()
	}
	names := map[string][]string{} // by the end of their runs
	for _, name := range p.names {
		end := p.nodes[name].end
		if end == nil {
			continue
		}
		word := end.Type
		if word == v1.RunDone && end.Status != nil {
			word = statusCell(*end.Status).Text
		}
		names[word] = append(names[word], name)
	}
	n := p.counts
	p.Printf("%s:", model.CountNoun(n.Nodes, "node"))
	for _, count := range []struct {
		n    int
		cell screen.Cell
	}{
		{n.OK, statusCell(model.OK)}, {n.Warning, statusCell(model.Warning)}, {n.Critical, statusCell(model.Critical)},
		{n.Unknown, statusCell(model.Unknown)},
		{n.Refused, screen.Cell{Text: v1.RunRefused, Colour: screen.Purple}}, {n.EndUnknown, screen.Cell{Text: v1.RunLost, Colour: screen.Purple}},
	} {
		if count.n == 0 {
			continue
		}
		p.Printf("  %d %s", count.n, count.cell)
		if count.cell != statusCell(model.OK) {
			p.Printf(" (%s)", firstNodeNames(names[count.cell.Text]))
		}
	}
	p.Printf("\n")
}

// printEqualOutputs prints each different output once, with the names of its nodes. The most frequent output comes
// first.
func (p *runPrinter) printEqualOutputs() {
	nodes := map[string][]string{} // by output
	for _, name := range p.names {
		n := p.nodes[name]
		text := strings.TrimRight(screen.CleanLines(n.pending), "\n")
		if n.end != nil {
			if end := p.runEndText(n.end, text != "", false); end != "" {
				text = strings.TrimPrefix(text+"\n"+string(end), "\n")
			}
		}
		nodes[text] = append(nodes[text], name)
	}
	mostNodes := func(a, b string) int {
		return cmp.Or(len(nodes[b])-len(nodes[a]), strings.Compare(nodes[a][0], nodes[b][0]))
	}
	for _, text := range slices.SortedFunc(maps.Keys(nodes), mostNodes) {
		names := nodes[text]
		slices.Sort(names)
		head := model.CountNoun(len(names), "node") + ": " + firstNodeNames(names)
		p.Printf("%s\n  %s\n", screen.Cell{Text: head, Colour: screen.Bold}, screen.PaintedText(strings.ReplaceAll(text, "\n", "\n  ")))
	}
}

// firstNodeNames formats the first names of a list of nodes, and the number of the others.
func firstNodeNames(names []string) string { return model.ListFirst(names, 8) }

// nodesStillRunning returns the nodes on which the run has begun and not ended
func (p *runPrinter) nodesStillRunning() []string {
	return slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return p.nodes[name].end != nil })
}

// targetsHelp is the grammar of --on and --except.
const targetsHelp = "NODE, group:NAME, where:CONDITION or all; several with commas, or repeat the flag"

// parseTargets parses the values of the flag --on or --except to targets that select nodes. Without values it
// returns nil. A comma within quotes or brackets belongs to a condition.
func parseTargets(flag string, values []string) (*model.Targets, error) {
	t, found := &model.Targets{}, false
	for _, value := range values {
		for _, part := range splitTargetList(value) {
			found = true
			kind, rest, prefixed := strings.Cut(part, ":")
			switch {
			case part == "all":
				t.Where = joinConditionsByOr(t.Where, "true")
			case !prefixed:
				t.Nodes = append(t.Nodes, part)
			case rest == "":
				return nil, model.Errorf(model.Invalid, "--%s: %q has no value after the colon; write for example group:web", flag, part).WithHint("%s", targetsHelp)
			case kind == "group":
				t.Groups = append(t.Groups, rest)
			case kind == "where":
				t.Where = joinConditionsByOr(t.Where, rest)
			case kind == "node":
				t.Nodes = append(t.Nodes, rest)
			default:
				return nil, model.Errorf(model.Invalid, "--%s: %q: unknown prefix %q", flag, part, kind).WithHint("%s", targetsHelp)
			}
		}
	}
	if !found {
		return nil, nil
	}
	slices.Sort(t.Nodes)
	t.Nodes = slices.Compact(t.Nodes)
	return t, nil
}

// joinConditionsByOr joins two CEL conditions with || to one condition
func joinConditionsByOr(a, b string) string {
	if a == "" {
		return b
	}
	return "(" + a + ") || (" + b + ")"
}

// splitTargetList splits the value of --on at commas that are outside quotes and brackets.
func splitTargetList(text string) (parts []string) {
	depth, start := 0, 0
	var quote byte
	add := func(part string) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == ',' && depth <= 0:
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return parts
}
