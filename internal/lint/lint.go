// Package lint joins what one resource is held to, so that `muster lint` on a laptop
// and apply on the server say the same: the model's own rules, the probes' tables of
// arguments, the compilers of conditions, of webhooks' templates and of Sensu's filters. Start reading at Rules.
package lint

import (
	"errors"

	"github.com/muster-fleet/muster/internal/agent/probe"
	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/handler/body"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
	"github.com/muster-fleet/muster/internal/where"
	"github.com/muster-fleet/muster/internal/window"
)

// Rules are all that can be said of a resource without a server.
func Rules() model.Rules {
	return model.Rules{
		Probe: func(p *model.Probe) error { return errors.Join(probe.Lint(p.Name, p.Args)...) },
		Where: func(expr string) error {
			_, err := where.Compile(expr)
			return err
		},
		ProblemWhere: route.CheckCondition,
		GroupWhere: func(expr string) error {
			condition, err := where.Compile(expr)
			if err == nil && condition.ReadsGroups() {
				return model.Errorf(model.Invalid, "a group's where cannot read node.groups").
					WithHint("list the other groups under groups:")
			}
			return err
		},
		TrustedWhere: func(expr string) error {
			condition, err := where.Compile(expr)
			if err != nil {
				return err
			}
			return condition.Trusted()
		},
		Template: body.Check,
		Span: func(span model.WindowSpan) error {
			_, err := window.New("", []model.WindowSpan{span})
			return err
		},
		During: func(text string) error {
			_, err := window.ParseDuring(text, "")
			return err
		},
		Filter: func(expression string) error {
			_, err := filter.Compile(expression)
			return err
		},
		Mutator: func(body string) error {
			_, err := filter.CompileMutation(body)
			return err
		},
	}
}
