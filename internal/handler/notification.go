package handler

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
)

// NotificationVersion changes when a field of Notification changes its meaning, not when a field is added.
const NotificationVersion = 1

// Kinds of notifications. Every kind of handler has a form for each.
const (
	Opened       = "opened"
	Closed       = "closed"
	Acknowledged = "acknowledged" // By has acknowledged the problem, with a Note
	Reminder     = "reminder"     // the problem is still open
	Summary      = "summary"      // Count problems in one notification, with a line for each in Output
	Test         = "test"         // muster handler test
	Deregistered = "deregistered" // an ephemeral node was deleted for the reason in Output
	Event        = "event"        // kind of a delivery from a pipeline; its notification is Opened or Closed
	Beat         = "beat"         // for the watchdog, which waits for the text in Output; no handler gets it
)

// Notification is the JSON object that tells a handler about problems, on standard input or by POST. A command
// gets it on standard input. It has more than 25 fields because programs read them in one flat JSON object,
// whose names are documented (docs/notifications.md).
type Notification struct {
	Version int               `json:"version"`
	Kind    string            `json:"kind"`    // opened | closed | …
	Problem string            `json:"problem"` // id: the deduplication key
	Node    string            `json:"node"`
	Labels  map[string]string `json:"labels,omitempty"` // labels of the node, and of the problem, which win
	Check   string            `json:"check,omitempty"`  // name of the source, where it is a check
	Source  Source            `json:"source"`
	// Of the check now: its name for people, and the link to the page with the steps to take.
	DisplayName      string `json:"displayName,omitempty"`
	Runbook          string `json:"runbook,omitempty"`
	Space            string `json:"namespace"`
	Status           string `json:"status"`                     // present status
	Worst            string `json:"worst"`                      // worst status of the problem so far
	Severity         string `json:"severity"`                   // severity of the worst status
	PreviousSeverity string `json:"previousSeverity,omitempty"` // last notified severity, in a reminder of a higher one
	SeverityRaised   bool   `json:"severityRaised,omitempty"`   // the severity exceeds all notified under this incident
	Output           string `json:"output"`                     // present output
	Description      string `json:"description,omitempty"`      // description of the trigger that has the problem
	AckExpired       bool   `json:"ackExpired,omitempty"`       // an acknowledgement that the handler knows of has ended
	// Incident is the id under which services know the problem, if an acknowledgement under its own id ended: PROBLEM.1, .2,
	// …, because services cannot reopen one. Replaces is the incident before.
	Incident string             `json:"incident,omitempty"`
	Replaces string             `json:"replaces,omitempty"`
	Opened   time.Time          `json:"opened"`
	Closed   time.Time          `json:"closed,omitzero"`
	Executed time.Time          `json:"executed"`          // time of the run of the check
	Expired  bool               `json:"expired,omitempty"` // a missed deadline set the status
	By       string             `json:"by,omitempty"`      // person who acknowledged the problem or sent the test
	Note     string             `json:"note,omitempty"`    // words of that person
	Count    int                `json:"count,omitempty"`   // number of problems in a summary
	Hooks    []model.HookResult `json:"hooks,omitempty"`   // results of the check's hooks
	// Problems lists the problems of a message about several, the worst first, at most MaxProblems of Count; Problem is then
	// the id of their group.
	Problems []ListedProblem `json:"problems,omitempty"`
	Summary  string          `json:"summary"` // one line for people
	// Of a message that passed a Sensu pipeline: the event in Sensu's shape, which programs get instead of the notification;
	// the pipeline as PIPELINE/WORKFLOW; and the mutator of the event.
	Event    json.RawMessage `json:"event,omitempty"`
	Pipeline string          `json:"pipeline,omitempty"`
	Mutator  string          `json:"mutator,omitempty"`
}

// Source is the JSON form of the check or trigger that has a problem, with its name.
type Source struct {
	model.Source
	Name string `json:"name"`
}

// SetSource sets the check or trigger that the problem is about. If the source is a check, it also sets the field
// Check to its name.
func (n *Notification) SetSource(s model.Source, name string) {
	if n.Source = (Source{s, name}); s.Kind == model.SourceCheck {
		n.Check = name
	}
}

// Subject returns the name of the problem's check or trigger in the form shown to people. It is "disk" for a
// check and "linux:load is high" for a trigger.
func (n *Notification) Subject() string { return n.Source.CommandName(n.Source.Name) }

// SubjectWithTitle returns the name of the problem's check or trigger, followed by its display name. An example is
// disk (Room on every mount).
func (n *Notification) SubjectWithTitle() string {
	if n.DisplayName == "" {
		return n.Subject()
	}
	return n.Subject() + " (" + n.DisplayName + ")"
}

// incidentID returns the id of the alert about the problem in an external service such as PagerDuty.
func (n *Notification) incidentID() string { return cmp.Or(n.Incident, n.Problem) }

// MaxProblems is the most problems that a notification lists.
const MaxProblems = 1000

// ListedProblem is one of the problems in a notification about several problems.
type ListedProblem struct {
	Problem          string    `json:"problem"`
	Space            string    `json:"namespace"`
	Node             string    `json:"node"`
	Check            string    `json:"check,omitempty"`
	Source           Source    `json:"source"`
	DisplayName      string    `json:"displayName,omitempty"`
	Runbook          string    `json:"runbook,omitempty"`
	Status           string    `json:"status"`
	Severity         string    `json:"severity"`
	PreviousSeverity string    `json:"previousSeverity,omitempty"` // severity of the last notification, if the present one is higher
	Opened           time.Time `json:"opened"`
	Closed           time.Time `json:"closed,omitzero"`
}

// Encode sets the field Summary and returns the notification as JSON.
func (n *Notification) Encode() ([]byte, error) {
	n.Version, n.Summary = NotificationVersion, n.summary()
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // scripts that read the message see > and no \u003e
	if err := e.Encode(n); err != nil {
		return nil, fmt.Errorf("encode notification of problem %s: %w", n.Problem, err)
	}
	return bytes.TrimSpace(data.Bytes()), nil
}

// Decode decodes a notification from the JSON of Notification.Encode.
func Decode(payload []byte) (*Notification, error) {
	n := &Notification{}
	if err := json.Unmarshal(payload, n); err != nil {
		return nil, fmt.Errorf("read notification: %w", err)
	}
	return n, nil
}

// messageText has the texts of a message for people, such as title, facts, output and commands. Each kind of handler
// puts the same text into the format of its service. The reader may just have been woken up.
type messageText struct {
	title    string      // one line with status, subject, node and output
	facts    [][2]string // names and values: times, severity, the labels in showLabels
	output   string      // first lines of the output
	commands []string    // commands that help the reader
	link     string      // address of a page about the problem; may be empty
	color    colorClass
}

// colorClass classes a message as good, mild, bad, unclear or plain, to choose its colour and symbol. The
// classes are good, mild, bad, unclear and plain.
type colorClass int

const (
	good    colorClass = iota // OK or closed
	mild                      // WARNING
	bad                       // CRITICAL
	unclear                   // UNKNOWN
	plain                     // the message shows no state of a problem: tests, acknowledgements
)

// hex returns the colour of the class in hexadecimal form, #rrggbb.
func (c colorClass) hex() string {
	return [...]string{"#2e7d32", "#f9a825", "#c62828", "#6a1b9a", "#546e7a"}[c]
}

// Limits of a text for people: lines and bytes of a check's output.
const (
	maxLines   = 10
	maxOutput  = 1000
	maxSummary = 200 // bytes of output in a title
)

// messageText formats a notification for people, with title, facts, output and commands. labels names the node labels
// to show.
func (o *Sender) messageText(n *Notification, labels []string) *messageText {
	w := &messageText{title: n.title(), link: problemLink(o.opts.ProblemLink, n), color: n.colorClass()}
	fact := func(name, format string, args ...any) {
		w.facts = append(w.facts, [2]string{name, body.JoinLines(fmt.Sprintf(format, args...))})
	}
	if n.Event != nil {
		w.link = "" // an event may have no problem
	}
	if n.Kind == Deregistered {
		fact("node", "%s", n.Node)
		fact("namespace", "%s", n.Space)
		w.link = ""
	} else if n.Kind == Summary || n.Kind == Test {
		fact("namespace", "%s", n.Space)
		w.link = ""
	} else {
		n.addProblemFacts(fact)
	}
	for _, link := range n.runbooks() {
		fact("runbook", "%s", link)
	}
	if n.By != "" {
		fact("by", "%s", strings.TrimSuffix(n.By+": "+n.Note, ": "))
	}
	for _, name := range labels {
		if value, ok := n.Labels[name]; ok {
			fact(name, "%s", value)
		}
	}
	if w.output = firstLines(n.Output); len(n.Problems) > 0 { // output has a line for each problem
		w.output = body.Cut(body.Clean(n.Output), 4*maxOutput)
	} else if n.Description != "" && n.Kind != Closed {
		w.output = strings.TrimSpace(w.output + "\n\n" + body.Cut(body.Clean(n.Description), maxOutput))
	}
	if n.Kind != Test && n.Kind != Summary && n.Kind != Deregistered {
		w.commands = n.commands()
	}
	return w
}

// maxRunbooks is the most links to runbooks in one message.
const maxRunbooks = 3

// runbooks returns the links to the problems' runbooks, without repetitions, the worst problem's first.
func (n *Notification) runbooks() (links []string) {
	list := append([]ListedProblem{{Runbook: n.Runbook}}, n.Problems...)
	for i := range list {
		if link := list[i].Runbook; link != "" && len(links) < maxRunbooks && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	return links
}

// addProblemFacts calls fact with the name and value of each detail of the problem, such as its node.
func (n *Notification) addProblemFacts(fact func(name, format string, args ...any)) {
	fact("node", "%s", n.Node)
	fact(n.Source.Kind.String(), "%s", n.SubjectWithTitle())
	if n.Space != model.DefaultNamespaceName {
		fact("namespace", "%s", n.Space)
	}
	status := n.Status
	if n.Expired {
		status += ", because no result arrived in time"
	}
	fact("status", "%s", status)
	if n.Kind == Closed {
		fact("was", "%s, severity %s", n.Worst, n.Severity)
		fact("open", "%s to %s, %s", formatTime(n.Opened), formatTime(n.Closed), formatDuration(n.Closed.Sub(n.Opened)))
		return
	}
	if n.PreviousSeverity != "" {
		fact("severity", "%s, was %s", n.Severity, n.PreviousSeverity)
	} else {
		fact("severity", "%s", n.Severity)
	}
	fact("since", "%s", formatTime(n.Opened))
}

// commands returns the muster commands that help the reader of the message, such as the command to acknowledge.
func (n *Notification) commands() []string {
	flag := ""
	if n.Space != model.DefaultNamespaceName {
		flag = " -n " + n.Space
	}
	event := model.ShellWord(n.Node+"/"+cmp.Or(n.Check, n.Subject())) + flag
	if n.Kind == Closed || n.Kind == Acknowledged {
		return []string{"muster why " + event}
	}
	return []string{"muster why " + event, "muster event ack " + event + ` -m "on it"`}
}

// summary returns one line about the message, with the note of the person who acknowledged.
func (n *Notification) summary() string {
	if n.Note == "" || n.Kind != Acknowledged && n.Kind != Summary {
		return n.title()
	}
	return body.JoinLines(n.title() + ": " + body.Cut(n.Note, maxSummary))
}

// title returns the title of a message, with status, subject, node and output in one line.
func (n *Notification) title() string {
	what := fmt.Sprintf("%s on %s: %s", n.Subject(), n.Node, firstLine(n.Output))
	switch n.Kind {
	case Closed:
		what = "RESOLVED: " + what
	case Acknowledged:
		what = fmt.Sprintf("ACKNOWLEDGED by %s: %s on %s", n.By, n.Subject(), n.Node)
	case Reminder:
		switch {
		case n.PreviousSeverity != "":
			what = "WORSE, " + n.Status + ": " + what
		case n.AckExpired:
			what = "UNACKNOWLEDGED, " + n.Status + ": " + what
		default:
			what = "STILL " + n.Status + ": " + what
		}
	case Summary:
		switch {
		case n.By != "":
			what = fmt.Sprintf("ACKNOWLEDGED by %s: %s on %s; others of its group are open", n.By, n.Subject(), n.Node)
			return body.JoinLines(what)
		case n.Status == model.OK.String():
			return body.JoinLines(fmt.Sprintf("%d RESOLVED, others of the group are open: %s", n.Count, firstLine(n.Output)))
		}
		if what = fmt.Sprintf("%d PROBLEMS: %s", n.Count, firstLine(n.Output)); n.AckExpired {
			what = "UNACKNOWLEDGED, " + what
		}
	case Deregistered:
		what = fmt.Sprintf("DEREGISTERED: node %s: %s", n.Node, firstLine(n.Output))
	case Test:
		what = "TEST: " + firstLine(n.Output)
	default:
		what = n.Status + ": " + what
	}
	return body.JoinLines(what)
}

// colorClass returns how good or bad the content of a message is, to choose its colour. The classes are good,
// mild, bad, plain and unclear.
func (n *Notification) colorClass() colorClass {
	switch {
	case n.Kind == Closed:
		return good
	case n.Kind == Test || n.Kind == Acknowledged || n.Kind == Deregistered:
		return plain
	}
	switch n.Status {
	case model.OK.String():
		return good
	case model.Warning.String():
		return mild
	case model.Critical.String():
		return bad
	}
	return unclear
}

// fixedWidthTexts returns the output and the commands of a message, to show in a fixed-width font.
func (w *messageText) fixedWidthTexts() []string {
	all := []string{w.output, strings.Join(w.commands, "\n")}
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// plainText formats the message as plain text, without the title.
func (w *messageText) plainText() string {
	var b strings.Builder
	for _, f := range w.facts {
		fmt.Fprintf(&b, "%-10s %s\n", f[0], f[1])
	}
	if w.output != "" {
		b.WriteString("\n" + w.output + "\n")
	}
	if len(w.commands) > 0 {
		b.WriteString("\n  " + strings.Join(w.commands, "\n  ") + "\n")
	}
	if w.link != "" {
		b.WriteString("\n" + w.link + "\n")
	}
	return b.String()
}

// firstLines returns the first lines of a check's output without performance data, and the number of omitted
// lines.
func firstLines(output string) string {
	lines := strings.Split(strings.TrimSpace(body.Clean(output)), "\n")
	for i, line := range lines {
		text, _, _ := strings.Cut(line, "|")
		lines[i] = strings.TrimRight(text, " \t")
	}
	left := 0
	if len(lines) > maxLines {
		left, lines = len(lines)-maxLines, lines[:maxLines]
	}
	text := body.Cut(strings.Join(lines, "\n"), maxOutput)
	if left > 0 {
		text += fmt.Sprintf("\n… (%d more lines)", left)
	}
	return text
}

// firstLine returns the first line of a check's output without performance data, cut to maxSummary bytes.
func firstLine(s string) string {
	if i := strings.IndexAny(s, "\n|"); i >= 0 {
		s = s[:i]
	}
	if len(s) > maxSummary {
		s = strings.ToValidUTF8(s[:maxSummary], "") + "…"
	}
	return strings.TrimSpace(s)
}

// formatTime formats a time in UTC.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// formatDuration formats a duration in its two largest units, such as 2 h 5 min.
func formatDuration(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// problemLink returns the address of a problem's web page, made from the configured pattern and the
// notification.
func problemLink(address string, n *Notification) string {
	if address == "" || n.Problem == "" {
		return ""
	}
	return strings.NewReplacer("{problem}", url.QueryEscape(n.Problem), "{node}", url.QueryEscape(n.Node),
		"{check}", url.QueryEscape(n.Source.Name), "{namespace}", url.QueryEscape(n.Space)).Replace(address)
}

// boundedFacts returns the details of a problem as a map of limited size, for a service with limits. A value
// has at most each bytes, and all facts together at most all bytes. It leaves out facts from the end, where the
// labels are, and adds their number.
func boundedFacts(facts [][2]string, each, all int) map[string]string {
	const more = "and more"
	out := map[string]string{}
	left := all - len(more) - 50
	for i, f := range facts {
		value := body.Cut(f[1], each)
		if left -= len(f[0]) + len(value); left < 0 {
			out[more] = fmt.Sprintf("%d more labels", len(facts)-i)
			break
		}
		out[f[0]] = value
	}
	return out
}

// truncateID cuts an incident id to n bytes, because a service limits the length of ids.
func truncateID(id string, n int) string { return id[:min(len(id), n)] }
