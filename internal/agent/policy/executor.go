package policy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
	rules "github.com/muster-fleet/muster/internal/policy"
	"github.com/muster-fleet/muster/internal/wire"
)

// Executor runs directives (policy rules) on the local machine. Its fields do not change while a directive runs.
type Executor struct {
	Runner  *run.Runner
	Facts   func() map[string]string
	Enforce bool // this machine may be changed by directives in enforce mode
	// Secrets returns the values of secrets by parameter.
	Secrets func(context.Context, []model.DefinitionSecret) (map[string]string, error)
	// AssetFolder returns the folder with the files of an asset's archive.
	AssetFolder func(context.Context, *model.DefinitionAsset) (string, error)
	// Packages keeps the installed packages between runs; nil: each run asks the package manager.
	Packages *PackageDatabase
	// PackageStamp returns a text that changes with the files of the package manager; nil or empty: they are unknown.
	PackageStamp func() string

	ProcSys      string // default /proc/sys
	SysctlFolder string // default /etc/sysctl.d
	SysModule    string // default /sys/module
	LibModules   string // folder with the list of built-in kernel modules of each kernel; default /lib/modules
	// ModulesFolder has the files that load kernel modules at each start; default /etc/modules-load.d.
	ModulesFolder string
	CronFolder    string // default /etc/cron.d
	SystemdFolder string // default /etc/systemd/system
	// RunLevelFolder has the folders rc2.d to rc5.d with the start links of System V; default /etc.
	RunLevelFolder string
	UserRoot       string // folder with etc/passwd and etc/group; default /
}

// method checks and repairs one declared property of the node, such as a file's content. A component of a directive
// has one method.
type method interface {
	// check returns the difference between node and declaration; "" if there is none. It changes nothing on the node.
	// An error means that the state of the node is unknown.
	check(ctx context.Context) (difference string, err error)
	// apply removes the difference.
	apply(ctx context.Context) error
}

// errNothingToCheck says that a component does nothing in audit mode.
var errNothingToCheck = errors.New("only applied in enforce mode")

// Bounds of one report, in bytes.
const (
	maxReportTexts = 64 << 10 // of all messages
	maxFile        = 16 << 20 // of a file that is compared
)

// MayChange reports whether a run of a directive may change the machine, at least by one component. values has the
// node's properties.
func (x *Executor) MayChange(c *model.DirectiveDefinition, values model.PropertyValues) bool {
	mode := model.NodePolicyModeOf(values)
	return x.Enforce && slices.ContainsFunc(c.Components, func(component model.Component) bool { return mode.EnforcesComponent(c, &component) })
}

// Run runs a directive (policy rule) once and returns its report. values has the node's properties. waived reports
// whether a Waiver covers a component now: such a component is only audited, and Waived where it does not comply. A
// run that takes longer than the directive's time-out ends: components that it did not reach stay missing. ok is false
// if ctx ended: such a run reports nothing.
func (x *Executor) Run(ctx context.Context, c *model.DirectiveDefinition, values model.PropertyValues, waived func(component string) bool) (report wire.Report, ok bool) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	mode := model.NodePolicyModeOf(values)
	r := directiveRun{
		Executor: x, definition: c, codes: rules.NewCodes(len(c.Components)),
		scope: rules.Scope{Facts: x.Facts(), Statuses: make(map[string]rules.Status, len(c.Components))},
	}
	var secrets map[string]string
	if len(c.Secrets) > 0 {
		secrets, r.secretFault = x.Secrets(limited, c.Secrets)
		r.hider = newRedactor(secrets)
	}
	r.values, r.fault = c.Lookup(values, secrets, func(name string) (string, bool) {
		text, ok := r.scope.Facts[name]
		return text, ok
	})
	for i := range c.Components {
		excused := waived(c.Components[i].Name)
		status, message := r.evaluate(limited, &c.Components[i], x.Enforce && mode.EnforcesComponent(c, &c.Components[i]) && !excused)
		if excused && (status == rules.NonCompliant || status == rules.CouldNotCheck) {
			status = rules.Waived
		}
		if limited.Err() != nil {
			r.ended = fmt.Sprintf("the run took longer than %s: %s and the components after it were not evaluated", model.Duration(c.Timeout), c.Components[i].Name)
			break
		}
		r.codes.Set(i, status)
		r.scope.Statuses[c.Components[i].Name] = status
		r.addMessage(i, message)
	}
	return wire.Report{
		Components: uint32(len(c.Components)), Codes: r.codes, Enforced: x.Enforce && mode.EnforcesDirective(c), DurationMs: uint32(time.Since(began).Milliseconds()),
		Exceptions: r.exceptions, Ended: model.Truncate(r.ended, model.MaxText),
	}, ctx.Err() == nil
}

// directiveRun is the progress of one run of a directive (policy rule) on the node. It has the variables, and
// the statuses and messages so far.
type directiveRun struct {
	*Executor
	definition  *model.DirectiveDefinition
	values      model.PropertyValues
	fault       error // why the variables of all components have no values
	secretFault error // why the secrets have no values
	hider       *hide.Redactor
	scope       rules.Scope
	packages    *PackageDatabase // nil: no component of this run has used it
	codes       rules.Codes
	exceptions  []wire.ReportException
	size        int // bytes of all messages
	ended       string
}

// newRedactor returns a Hider, which replaces secret values and each line of a secret in messages. A message
// may contain one line of a file.
func newRedactor(secrets map[string]string) *hide.Redactor {
	var words []string
	for _, value := range secrets {
		words = append(words, value)
		if lines := strings.Split(value, "\n"); len(lines) > 1 {
			words = append(words, lines...)
		}
	}
	return hide.New(words)
}

// addMessage adds a message about one component (checked part) of the directive, while the report has room.
func (r *directiveRun) addMessage(position int, message string) {
	message = strings.ToValidUTF8(strings.TrimSpace(string(r.hider.Redact([]byte(message)))), "\uFFFD")
	if message == "" || len(r.exceptions) == wire.MaxReportExceptions || r.size > maxReportTexts {
		return
	}
	message = model.Truncate(message, wire.MaxExceptionText-len("…"))
	r.size += len(message)
	r.exceptions = append(r.exceptions, wire.ReportException{Position: uint32(position), Message: message})
}

// evaluate checks one component (declared part) of a policy directive and, in enforce mode, repairs a
// difference. After a repair it checks again.
func (r *directiveRun) evaluate(ctx context.Context, c *model.Component, enforce bool) (status rules.Status, message string) {
	if c.When != "" {
		condition, err := rules.ParseCondition(c.When)
		if err != nil {
			return rules.CouldNotCheck, err.Error()
		}
		if !condition.IsTrue(&r.scope) {
			return rules.NotApplicable, ""
		}
	}
	if r.fault != nil {
		return rules.CouldNotCheck, r.fault.Error()
	}
	secret := r.definition.ReadsSecret(c)
	if secret && r.secretFault != nil {
		return rules.CouldNotCheck, r.secretFault.Error()
	}
	expanded, err := c.Expand(r.values)
	if err != nil {
		return rules.CouldNotCheck, err.Error()
	}
	var m method
	if secret {
		m = secretMethod{r.newMethod(expanded, newSecretMode)}
	} else {
		m = r.newMethod(expanded, newFileMode)
	}
	difference, err := m.check(ctx)
	switch {
	case errors.Is(err, errNothingToCheck) && !enforce:
		return rules.NotApplicable, ""
	case err != nil && !errors.Is(err, errNothingToCheck):
		return rules.CouldNotCheck, err.Error()
	case err == nil && difference == "" && enforce:
		return rules.Success, ""
	case err == nil && difference == "":
		return rules.Compliant, ""
	case !enforce:
		return rules.NonCompliant, difference
	}
	err = m.apply(ctx)
	if r.packages != nil {
		r.packages.forget() // also a command may install packages
	}
	if err != nil {
		return rules.Error, strings.TrimPrefix(difference+"; the repair failed: "+err.Error(), "; ")
	}
	switch after, err := m.check(ctx); {
	case errors.Is(err, errNothingToCheck):
	case err != nil:
		return rules.Error, "repaired, but the second check failed: " + err.Error()
	case after != "":
		return rules.Error, "still so after the repair: " + after
	}
	return rules.Repaired, difference
}

// secretMethod wraps a policy method with a secret in its arguments, and hides the found difference in
// messages. Its difference has no text of the file: parts of a secret may stand in it.
type secretMethod struct{ method }

// check checks the node by the wrapped method, but does not return the difference from the declaration. It does
// not report how they differ, because the difference may contain a secret.
func (m secretMethod) check(ctx context.Context) (string, error) {
	difference, err := m.method.check(ctx)
	if difference != "" {
		difference = "not as declared; the difference is not shown, because the component reads a secret"
	}
	return difference, err
}

// newMethod returns the policy method of a component (checked part of a directive), with its arguments
// expanded. newMode is the mode of a file that it makes.
func (r *directiveRun) newMethod(m *model.Method, newMode fs.FileMode) method {
	switch {
	case m.FileContent != nil && m.FileContent.Asset != "":
		return &fileContent{m.FileContent, newMode, func(ctx context.Context) (string, error) { return r.readAsset(ctx, m.FileContent) }}
	case m.FileContent != nil:
		return &fileContent{m.FileContent, newMode, nil}
	case m.FilePresent != nil:
		return &filePresent{m.FilePresent.Path}
	case m.FileAbsent != nil:
		return &fileAbsent{m.FileAbsent.Path}
	case m.FileLines != nil:
		return &fileLines{m.FileLines, newMode}
	case m.FileKeyValue != nil:
		return &fileKeyValue{m.FileKeyValue, newMode}
	case m.FileBlock != nil:
		return &fileBlock{m.FileBlock, newMode}
	case m.FileIni != nil:
		return &fileIni{m.FileIni, newMode}
	case m.Symlink != nil:
		return &symlink{m.Symlink}
	case m.User != nil:
		return &localUser{r.Executor, m.User}
	case m.UserGroup != nil:
		return &localGroup{r.Executor, m.UserGroup}
	case m.KernelModule != nil:
		return &kernelModule{r.Executor, m.KernelModule}
	case m.Cron != nil:
		return &cron{r.Executor, m.Cron}
	case m.HTTP != nil:
		return &httpAnswer{m.HTTP}
	case m.Report != nil:
		return &conditionReport{&r.scope, m.Report}
	case m.Timer != nil:
		return &timer{r.Executor, m.Timer}
	case m.FileACL != nil:
		return &fileACL{r.Runner, m.FileACL}
	case m.FilePermissions != nil:
		return &filePermissions{m.FilePermissions}
	case m.Directory != nil:
		return &directory{m.Directory.Path}
	case m.Command != nil:
		return &command{r.Runner, m.Command}
	case m.Package != nil:
		return &packagePresence{r, m.Package}
	case m.Service != nil:
		return r.newService(m.Service)
	}
	return &sysctl{r.Executor, m.Sysctl}
}
