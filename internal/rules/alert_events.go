package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promrules "github.com/prometheus/prometheus/rules"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/metric"
	"github.com/muster-fleet/muster/internal/source/alertmanager"
	"github.com/muster-fleet/muster/internal/store/series"
	"github.com/muster-fleet/muster/internal/wire"
)

// labelNamespace is the label of the namespace, which all series and alerts of a group have.
const labelNamespace = series.LabelNamespace

// maxInstance bounds the instance of an alert's event in bytes, so that people and paths of the API can name it. The name of
// an alert has at most 128.
const maxInstance = 160

// eventKey identifies the event of an alert in its rule group by node and instance.
type eventKey struct {
	node     model.NodeID
	instance string
}

// alertEvent is the last state of an alert's event that the rules engine has written to the journal.
type alertEvent struct {
	problem  bool
	severity model.Severity
	loaded   bool      // of the run before, and no evaluation has found the alert yet
	missing  time.Time // of an event of the run before: the first evaluation without the alert
}

// reportAlerts writes the changed alerts of a rule group to the journal as changes of events. An alert that fires
// opens a problem, one that is resolved closes it. An alert that Prometheus' rules have forgotten, 15 minutes after
// its end, loses its event.
func (v *evaluator) reportAlerts(ctx context.Context, g *Group, at time.Time) error {
	e := v.engine
	active, unlocated := e.activeAlerts(ctx, g)
	rules, err := g.alertingRulesByName(), unlocated
	var changes eventChanges
	for key, a := range active {
		was := g.events[key]
		switch {
		case a.State == promrules.StateFiring:
			severity := severityOf(a.Labels)
			if was != nil && was.problem && was.severity == severity {
				was.loaded = false
			} else if was == nil && v.countEvents() >= maxNamespaceAlerts {
				e.metrics.verdicts[limitedVerdict].Inc()
				err = cmp.Or(err, fmt.Errorf("namespace %s has reached its limit of %d alert events, so the server creates no event for a further alert", g.Namespace(), maxNamespaceAlerts))
			} else {
				changes.add(key, &alertEvent{problem: true, severity: severity}, wire.Verdict{Problem: true, Severity: severity, Output: []byte(alertText(a))})
			}
		case a.State == promrules.StateInactive && was != nil && was.problem:
			changes.add(key, &alertEvent{}, wire.Verdict{Output: []byte("resolved: " + alertText(a))})
		}
	}
	for key, was := range g.events {
		name, _, _ := strings.Cut(key.instance, "{")
		of := rules[name]
		switch {
		case active[key] != nil || of.failed || unlocated != nil:
		case was.problem && was.loaded && was.missing.IsZero():
			was.missing = at
		case g.restores || was.problem && was.loaded && at.Sub(was.missing) < of.keepFiring:
		case was.problem:
			changes.add(key, &alertEvent{}, wire.Verdict{Output: []byte("resolved: the rule no longer has this alert")})
		default:
			changes.add(key, nil, wire.Verdict{Removed: true})
		}
	}
	return errors.Join(err, e.writeEventChanges(ctx, g, &changes, at))
}

// closeEvents closes and removes the alert events of a rule group that is no longer evaluated. It also removes the
// group's events.
func (e *Engine) closeEvents(ctx context.Context, g *Group, at time.Time) error {
	var changes eventChanges
	for key, was := range g.events {
		if was.problem {
			changes.add(key, &alertEvent{}, wire.Verdict{Output: []byte("resolved: its RuleGroup is disabled")})
		}
		changes.add(key, nil, wire.Verdict{Removed: true})
	}
	return e.writeEventChanges(ctx, g, &changes, at)
}

// activeAlerts returns the pending, firing and recently ended alerts of a rule group, by node and instance. The
// alerts are pending, firing, or ended within the last 15 minutes. The error is about alerts without a node.
func (e *Engine) activeAlerts(ctx context.Context, g *Group) (map[eventKey]*promrules.Alert, error) {
	active := map[eventKey]*promrules.Alert{}
	var failed error
	for _, r := range g.AlertingRules() {
		r.ForEachActiveAlert(func(a *promrules.Alert) {
			node, label := e.findAlertNode(g.Namespace(), a.Labels)
			if node == 0 && a.State != promrules.StateFiring {
				return
			}
			if node == 0 && failed == nil {
				failed = e.createProxyNode(ctx, g.Namespace(), alertmanager.AlertsNode)
				node, _ = e.opts.Directory.NodeByName(g.Namespace(), alertmanager.AlertsNode)
			}
			if node == 0 {
				e.metrics.verdicts[unwrittenVerdict].Inc()
				return
			}
			key := eventKey{node, instanceOf(a.Labels, label)}
			if before := active[key]; before == nil || before.State < a.State {
				copied := *a
				active[key] = &copied
			}
		})
	}
	return active, failed
}

// findAlertNode returns the node that an alert belongs to, and the label with the name of the node. Alerts that
// name no node of the namespace belong to the proxy node alerts; zero: it does not exist yet.
func (e *Engine) findAlertNode(namespace string, l labels.Labels) (node model.NodeID, label string) {
	names := alertmanager.NodeNames(l.Map())
	for _, name := range append(names, alertmanager.AlertsNode) {
		if id, ok := e.opts.Directory.NodeByName(namespace, name); ok && id != model.ServerNode {
			if l.Get(series.LabelNode) == name {
				label = series.LabelNode
			}
			return id, label
		}
	}
	return 0, ""
}

// instanceOf returns the name of an alert's event on its node, such as NAME{LABEL="VALUE", …}. Labels that the event
// already expresses are left out. A longer one has the hash of the labels.
func instanceOf(l labels.Labels, nodeLabel string) string {
	b := labels.NewBuilder(l).Del(labels.AlertName, labelNamespace)
	if nodeLabel != "" {
		b.Del(nodeLabel)
	}
	own, name := b.Labels(), l.Get(labels.AlertName)
	if text := name + own.String(); len(text) <= maxInstance {
		return text
	}
	return name + `{labels="` + strconv.FormatUint(own.Hash(), 16) + `"}`
}

// severityOf returns the severity of an alert's problem from the label severity. The label has a severity of Muster,
// or a word of Prometheus users. Default warning.
func severityOf(l labels.Labels) model.Severity {
	if s, ok := model.ParseSeverity(l.Get("severity")); ok {
		return s
	}
	switch alertmanager.StatusOf(l.Map()) {
	case model.Critical:
		return model.High
	case model.OK:
		return model.Information
	}
	return model.SeverityWarning
}

// alertText returns the output of an alert's event, with the alert's summary, labels, description and links. It
// has summary, labels, description and links.
func alertText(a *promrules.Alert) string {
	of := alertmanager.Alert{Labels: a.Labels.Map(), Annotations: a.Annotations.Map()}
	delete(of.Labels, labelNamespace)
	return model.Truncate(of.Text(), maxOutput)
}

// maxOutput bounds the output of an event of an alert in bytes.
const maxOutput = 16 << 10

// countEvents returns the number of alert events in the namespace.
func (v *evaluator) countEvents() (n int) {
	for _, g := range v.byUnit {
		n += len(g.events)
	}
	return n
}

// eventChanges collects changes of alert events for one write to the journal.
type eventChanges struct {
	keys     []eventKey
	events   []*alertEvent // after the change; nil: removed
	verdicts []wire.Verdict
}

// add adds the change of one alert's event to the changes for the next write to the journal. A nil event means
// that the event is removed.
func (b *eventChanges) add(key eventKey, event *alertEvent, v wire.Verdict) {
	b.keys, b.events, b.verdicts = append(b.keys, key), append(b.events, event), append(b.verdicts, v)
}

// maxVerdicts is the most verdicts in one call of RecordVerdicts.
const maxVerdicts = 1000

// writeEventChanges writes changes of alert events to the journal. After an error the group still has the events as they
// were, so that the next evaluation writes the changes again.
func (e *Engine) writeEventChanges(ctx context.Context, g *Group, b *eventChanges, at time.Time) error {
	type change struct {
		key   eventKey
		event *alertEvent
	}
	var changes []change
	var list []metric.Verdict
	for i, v := range b.verdicts {
		v.Definition, v.Trigger, v.Executed = g.unit.Definition.ID, b.keys[i].instance, at.UnixNano()
		changes, list = append(changes, change{b.keys[i], b.events[i]}), append(list, metric.Verdict{Node: b.keys[i].node, Verdict: v})
	}
	for part := range slices.Chunk(list, maxVerdicts) {
		partitions := make([]model.Partition, len(part))
		for i := range part {
			partitions[i] = model.PartitionOf(e.opts.Directory.Node(part[i].Node).UID)
		}
		if err := e.opts.RecordVerdicts(ctx, part, partitions); err != nil {
			e.metrics.verdicts[unwrittenVerdict].Add(float64(len(part)))
			return fmt.Errorf("write the changed alerts to the journal: %w", err)
		}
		e.metrics.verdicts[writtenVerdict].Add(float64(len(part)))
		for _, c := range changes[:len(part)] {
			if c.event == nil {
				delete(g.events, c.key)
			} else {
				g.events[c.key] = c.event
			}
		}
		changes = changes[len(part):]
	}
	return nil
}
