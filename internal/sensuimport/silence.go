package sensuimport

import (
	"cmp"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// importSilence is a silence by subscription and check; either may be * or missing.
func importSilence(o *object) {
	s := o.spec
	subscription, check := s.text("subscription"), s.text("check")
	if subscription == "" && check == "" {
		subscription, check, _ = strings.Cut(o.name, ":")
		if node, ok := strings.CutPrefix(o.name, "entity:"); ok {
			subscription, check, _ = strings.Cut(node, ":")
			subscription = "entity:" + subscription
		}
	}
	spec := &model.SilenceSpec{Reason: cmp.Or(s.text("reason"), "silenced in Sensu"), UntilResolved: s.boolean("expire_on_resolve")}
	if by := s.text("creator"); by != "" {
		spec.Reason += " (by " + by + ")"
	}
	switch node, ok := strings.CutPrefix(subscription, "entity:"); {
	case ok:
		spec.Targets = &model.Targets{Nodes: []string{name(node)}}
	case subscription != "" && subscription != "*":
		spec.Targets = &model.Targets{Groups: []string{o.group(subscription)}}
	}
	if check != "" && check != "*" {
		spec.Checks = []string{name(check)}
	} else if spec.Targets != nil && spec.Targets.Groups != nil {
		o.noteChange("it holds for all checks of the nodes of group %s, their keepalive too; in Sensu for those that subscribe to it: say which with checks", spec.Targets.Groups[0])
	}
	begin := unix(s.integer("begin"))
	until := unix(s.integer("expire_at"))
	if expire := s.integer("expire"); until.IsZero() && expire > 0 { // the rest of it, if it has begun
		from := o.importer.now
		if begin.After(from) {
			from = begin
		}
		until = from.Add(time.Duration(expire) * time.Second)
	}
	if !until.IsZero() && !until.After(o.importer.now) {
		o.noteChange("it has ended: left out")
		return
	}
	if begin.After(o.importer.now) {
		spec.Begin = model.Time{Time: begin}
	}
	if !until.IsZero() {
		spec.Until = model.Time{Time: until}
	}
	if o.name = strings.NewReplacer("*", "all").Replace(o.name); o.name == "" {
		o.name = "all"
	}
	o.declare(spec)
}

// unix is a time that Sensu wrote as seconds; zero: none.
func unix(n int) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}
