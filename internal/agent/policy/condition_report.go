package policy

import (
	"context"
	"errors"

	"github.com/muster-fleet/muster/internal/model"
	rules "github.com/muster-fleet/muster/internal/policy"
)

// conditionReport is the policy method that reports non-compliance if a condition is false. The condition reads
// earlier components and facts.
type conditionReport struct {
	scope *rules.Scope
	*model.ReportMethod
}

// check evaluates the declared condition, and returns the declared message if the condition is false.
func (m *conditionReport) check(context.Context) (string, error) {
	condition, err := rules.ParseCondition(m.If)
	if err != nil || condition.IsTrue(m.scope) {
		return "", err
	}
	return m.Message, nil
}

// apply returns an error, because the policy method report only reports and cannot repair the node.
func (m *conditionReport) apply(context.Context) error {
	return errors.New("report only checks: repair the cause with a component before it")
}
