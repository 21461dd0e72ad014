package rudder

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// agentRun is the parsed log of one run of Rudder's agent, with the reports about components.
type agentRun struct {
	node    string    // id of the node in Rudder
	start   time.Time // identifies the run on its node
	config  string    // id of the policies that the agent had
	fullRun bool      // it begins with the start of a run; false: the agent ran a part of its policies on request
	ended   bool      // it has the end of a run
	reports []componentReport
	invalid int // lines that look like reports and are none
}

// componentReport is one report of an agent run about one component (checked part) of a directive.
type componentReport struct {
	technique, kind, rule, directive, id string
	component, value                     string
	message                              string
}

// maxReports bounds the reports of one run.
const maxReports = 50_000

// linePrefix is the time at the beginning of each line.
var linePrefix = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) ?`)

// logPrefix is the beginning of a line of the agent's own log behind its time. Such a line ends the report before it. The
// agent pads the levels: a message may have a line that begins with a bare word such as error.
var logPrefix = regexp.MustCompile(`^(?:rudder )?(?:CRITICAL|   error| warning|  notice|    info| verbose|   debug)|^R:`)

// reportMark is the beginning of a report behind its time.
const reportMark = "R: @@"

// parseRun reads the log of a run. Lines of the agent's own log, and reports for its log alone, are left out.
func parseRun(log []byte) (*agentRun, error) {
	p := runParser{run: &agentRun{}}
	for line := range strings.Lines(strings.ToValidUTF8(string(log), "\uFFFD")) {
		line = strings.TrimRight(line, "\r\n")
		time := linePrefix.FindString(line)
		rest := line[len(time):]
		switch {
		case strings.HasPrefix(rest, reportMark):
			if err := p.endReport(); err != nil {
				return nil, err
			}
			p.text, p.open = append(p.text[:0], rest[len(reportMark):]...), true
		case logPrefix.MatchString(rest):
			if err := p.endReport(); err != nil {
				return nil, err
			}
		case p.open:
			p.text = append(append(p.text, '\n'), rest...)
		}
	}
	if err := p.endReport(); err != nil {
		return nil, err
	}
	if p.run.node == "" {
		return nil, model.Errorf(model.Invalid, "the run has no reports")
	}
	return p.run, nil
}

// runParser collects the component reports while parseRun reads the log of a run.
type runParser struct {
	run  *agentRun
	text []byte // of the report that is open, without its mark
	open bool
}

// endReport parses the collected lines of one report, and adds the report to the run.
func (p *runParser) endReport() error {
	if !p.open {
		return nil
	}
	p.open = false
	r, start, node, ok := parseReport(string(p.text))
	switch {
	case !ok:
		p.run.invalid++
		return nil
	case p.run.node == "":
		p.run.node, p.run.start = node, start
	case p.run.node != node:
		return model.Errorf(model.Invalid, "the run has reports of two nodes, %s and %s", model.Truncate(p.run.node, 100), model.Truncate(node, 100))
	}
	switch {
	case r.kind == "control":
		switch r.component {
		case "start":
			p.run.fullRun, p.run.config, p.run.start = true, r.value, start
		case "end":
			p.run.ended = true
		}
		return nil
	case strings.HasPrefix(r.kind, "log_"), r.kind == "report_json":
		return nil
	}
	if len(p.run.reports) == maxReports {
		return model.Errorf(model.TooLarge, "the run has more than %d reports", maxReports)
	}
	p.run.reports = append(p.run.reports, r)
	return nil
}

// parseReport reads one report from the log of a run. It begins behind the report's mark. The form is
// TECHNIQUE@@TYPE@@RULE@@DIRECTIVE@@ID@@COMPONENT@@VALUE@@START##NODE@#MESSAGE.
func parseReport(text string) (r componentReport, start time.Time, node string, ok bool) {
	fields := strings.SplitN(text, "@@", 8)
	if len(fields) != 8 {
		return r, start, "", false
	}
	at, rest, ok := strings.Cut(fields[7], "##")
	if !ok {
		return r, start, "", false
	}
	node, message, ok := strings.Cut(rest, "@#")
	start, err := time.Parse("2006-01-02 15:04:05-07:00", at)
	if !ok || err != nil || node == "" || strings.ContainsAny(node, " \n") {
		return r, start, "", false
	}
	return componentReport{
		technique: fields[0], kind: fields[1], rule: fields[2], directive: fields[3], id: fields[4], component: fields[5], value: cmp.Or(fields[6], "None"), message: message,
	}, start, node, true
}
