package alertmanager

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
)

// firingAlert is one firing alert, with the time at which the alert ends unless repeated. A sender's repetition
// moves the end.
type firingAlert struct {
	status model.Status
	line   string        // summary and labels
	text   string        // line, description and links
	until  time.Duration // time at which the alert ends if no sender repeats it
	delay  clockDelay
}

// alertEvent has all firing alerts of one alert name on one node, and their common event's state. Times are of
// Server.clock.
type alertEvent struct {
	node      model.NodeID
	namespace string
	check     string

	alerts map[[32]byte]*firingAlert
	// restored is the state that the event had when the server started. It counts as a firing alert until senders have
	// had time to repeat the alerts.
	restored *firingAlert
	ended    string // summary of the alert that ended last

	stateKnown bool // status and output are the last result; false: it may be lost
	status     model.Status
	output     string
	written    time.Duration // time of the last result
}

// eventKey identifies the event of alerts by node and passive check.
type eventKey struct {
	node  model.NodeID
	check model.CheckID
}

// presentResult returns the status and output that an event must now have, according to its firing alerts.
func (p *alertEvent) presentResult() (status model.Status, text string) {
	list := make([]*firingAlert, 0, len(p.alerts))
	for _, f := range p.alerts {
		list = append(list, f)
		status = max(status, f.status)
	}
	if p.restored != nil {
		status = max(status, p.restored.status)
		if len(list) == 0 {
			list = append(list, p.restored)
		}
	}
	switch {
	case len(list) > 0:
		text = alertListOutput(list)
		note := ""
		for _, f := range list {
			note = max(note, f.delay.note)
		}
		if note != "" {
			text += "\n" + note
		}
		return status, text
	case p.ended != "":
		return model.OK, "resolved: " + p.ended
	}
	return model.OK, "resolved"
}

// isIdle reports whether the server may forget an alerts' event in memory, because no alert fires any more. No
// alert fires then, and the journal has its OK result.
func (p *alertEvent) isIdle() bool { return len(p.alerts) == 0 && p.restored == nil && p.stateKnown }

// removeExpired removes the alerts that were not repeated in time and returns how many.
func (p *alertEvent) removeExpired(now time.Duration) (n int) {
	for id, f := range p.alerts {
		if f.until <= now {
			p.ended = f.line + " (no longer repeated)"
			delete(p.alerts, id)
			n++
		}
	}
	if p.restored != nil && p.restored.until <= now {
		p.restored = nil
		if p.ended == "" {
			p.ended = "not repeated since this server started"
		}
	}
	return n
}

// StatusOf returns the check status, such as critical, that an alert's label severity means. An unknown or
// missing severity is WARNING.
func StatusOf(labels map[string]string) model.Status {
	switch strings.ToLower(labels["severity"]) {
	case "critical", "crit", "page", "error", "high", "major", "fatal", "emergency", "disaster", "p1":
		return model.Critical
	case "none", "ok", "debug", "info", "information", "informational", "notice":
		return model.OK
	}
	return model.Warning
}

// nodeLabels are the labels that name the node of an alert, the most specific first.
var nodeLabels = [...]string{"node", "nodename", "host", "hostname", "instance"}

// AlertsNode is the proxy node of alerts that name no machine.
const AlertsNode = "alerts"

// NodeNames returns the candidates for the node's name in an alert's labels, best first. The last is the name
// for a new proxy node.
func NodeNames(labels map[string]string) (names []string) {
	first := ""
	for _, label := range nodeLabels {
		host := hostOf(labels[label])
		name := model.CleanName(host)
		if name == "" {
			continue
		}
		names = append(names, name)
		if short, _, ok := strings.Cut(name, "."); ok && short != "" && net.ParseIP(host) == nil {
			names = append(names, short)
		}
		first = cmp.Or(first, name)
	}
	return append(names, cmp.Or(first, AlertsNode))
}

// hostOf returns the host in an alert's label instance, without scheme, port and path.
func hostOf(instance string) string {
	if strings.Contains(instance, "://") {
		if u, err := url.Parse(instance); err == nil && u.Hostname() != "" {
			return u.Hostname()
		}
	}
	if host, _, err := net.SplitHostPort(instance); err == nil && host != "" {
		return host
	}
	return strings.Trim(instance, "[]")
}

// summaryLine returns an alert's summary and its labels, without labels that the event shows elsewhere.
func (a *Alert) summaryLine() string {
	var b strings.Builder
	b.WriteString(oneLine(cmp.Or(a.Annotations["summary"], a.Annotations["title"], a.Annotations["message"], a.Annotations["description"], a.Labels["alertname"])))
	first := true
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if name == "alertname" || strings.HasPrefix(name, "__") || a.Labels[name] == "" {
			continue
		}
		sep := " "
		if first {
			sep, first = " (", false
		}
		b.WriteString(sep + name + "=" + oneLine(a.Labels[name]))
	}
	if !first {
		b.WriteString(")")
	}
	return b.String()
}

// Text returns the output for an alert, with summary line, description and links.
func (a *Alert) Text() string {
	lines := []string{a.summaryLine()}
	for _, name := range [...]string{"message", "description"} {
		if text := strings.TrimSpace(a.Annotations[name]); text != "" && !strings.HasPrefix(lines[0], oneLine(text)) {
			lines = append(lines, validText(text))
		}
	}
	for _, link := range []struct{ what, url string }{
		{"runbook", a.Annotations["runbook_url"]}, {"dashboard", a.Annotations["dashboardURL"]}, {"panel", a.Annotations["panelURL"]}, {"source", a.GeneratorURL},
	} {
		if link.url != "" {
			lines = append(lines, link.what+": "+oneLine(link.url))
		}
	}
	return strings.Join(lines, "\n")
}

// alertListOutput returns the output of an event, the text of its firing alerts. It is the text of one alert, or a
// list of several.
func alertListOutput(list []*firingAlert) string {
	if len(list) == 1 {
		return list[0].text
	}
	slices.SortFunc(list, func(a, b *firingAlert) int {
		return cmp.Or(cmp.Compare(b.status, a.status), strings.Compare(a.line, b.line))
	})
	lines := []string{fmt.Sprintf("%d alerts fire", len(list))}
	for _, f := range list {
		lines = append(lines, f.status.String()+": "+f.line)
	}
	return strings.Join(lines, "\n")
}

// oneLine replaces the line breaks of a text by spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(validText(text)), " ") }

// validText replaces invalid characters (bad UTF-8 and NUL) in a text.
func validText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}

// truncate cuts a text to at most `limit` bytes, and ends a cut text with a note.
func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const markBytes = 40
	end := max(0, limit-markBytes)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… [cut %d bytes]", text[:end], len(text)-end)
}
