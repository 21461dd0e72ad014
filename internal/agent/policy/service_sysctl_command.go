package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
)

// runProgram runs a system program and returns its exit code and output. The error says why the program did not end
// normally.
func runProgram(ctx context.Context, r *run.Runner, argv ...string) (code int, output string, err error) {
	return runCommand(ctx, r, run.Command{Argv: argv, Env: map[string]string{"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}})
}

// runCommand runs a command that a policy directive declares, and returns its exit code and output. The error
// says why the command did not end normally.
func runCommand(ctx context.Context, r *run.Runner, c run.Command) (code int, output string, err error) {
	c.AdHoc, c.MaxOutput = true, cmp.Or(c.MaxOutput, 16<<10)
	out := r.Run(ctx, c)
	text := strings.TrimSpace(string(out.Output))
	switch {
	case out.Refused, out.Code < 0:
		return 0, "", errors.New(cmp.Or(text, "the command did not end"))
	case out.Code == 126 || out.Code == 127: // the shell found no such program
		return 0, "", fmt.Errorf("the command cannot run: %s", text)
	}
	return out.Code, text, nil
}

// lastLine returns the last line of a command's output.
func lastLine(output string) string { return output[strings.LastIndexByte(output, '\n')+1:] }

// service is the policy method that requires a systemd service to run or to be stopped. It can also require the
// service to be enabled or disabled.
type service struct {
	runner *run.Runner
	*model.ServiceMethod
}

// Words of systemctl for states of a unit.
var (
	activeStates   = []string{"active", "reloading", "activating", "refreshing"}
	inactiveStates = []string{"inactive", "failed", "deactivating", "unknown"}
	enabledStates  = []string{"enabled", "enabled-runtime", "static", "alias", "indirect", "generated"}
	disabledStates = []string{"disabled", "masked", "masked-runtime", "not-found"}
)

// check asks systemd whether the service is running and enabled, and compares the answers with the declaration.
func (m *service) check(ctx context.Context) (string, error) {
	var wrong []string
	for _, of := range []struct {
		verb, want, yes     string
		yesStates, noStates []string
	}{
		{"is-active", m.State, "running", activeStates, inactiveStates},
		{"is-enabled", m.Boot, "enabled", enabledStates, disabledStates},
	} {
		if of.want == "" {
			continue
		}
		_, output, err := runProgram(ctx, m.runner, "systemctl", of.verb, "--", m.Name)
		if err != nil {
			return "", err
		}
		state := lastLine(output)
		if of.yes == "enabled" && strings.HasSuffix(state, "No such file or directory") { // systemd before 254
			state = "not-found"
		}
		holds := slices.Contains(of.yesStates, state)
		if !holds && !slices.Contains(of.noStates, state) {
			return "", fmt.Errorf("systemctl %s %s: %s", of.verb, m.Name, cmp.Or(state, "no answer"))
		}
		if holds != (of.want == of.yes) {
			wrong = append(wrong, fmt.Sprintf("service %s is %s, not %s", m.Name, state, of.want))
		}
	}
	return strings.Join(wrong, "; "), nil
}

// apply starts or stops the service, and enables or disables the service.
func (m *service) apply(ctx context.Context) error {
	verbs := map[string]string{"running": "start", "stopped": "stop", "enabled": "enable", "disabled": "disable"}
	for _, want := range []string{m.Boot, m.State} {
		if want == "" {
			continue
		}
		code, output, err := runProgram(ctx, m.runner, "systemctl", verbs[want], "--", m.Name)
		if err == nil && code != 0 {
			err = fmt.Errorf("systemctl %s: %s", verbs[want], lastLine(output))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sysctl is the policy method that requires a certain kernel parameter value, now and after each start.
type sysctl struct {
	*Executor
	*model.SysctlMethod
}

// path returns the path of the kernel parameter in /proc/sys.
func (m *sysctl) path() (string, error) {
	if m.Key == "" || strings.ContainsAny(m.Key, "/\x00") || strings.Contains(m.Key, "..") {
		return "", fmt.Errorf("%q is not a kernel parameter", m.Key)
	}
	return filepath.Join(cmp.Or(m.ProcSys, "/proc/sys"), strings.ReplaceAll(m.Key, ".", "/")), nil
}

// check compares the kernel parameter's present value with the declared value. Differences of white space do not
// count.
func (m *sysctl) check(context.Context) (string, error) {
	path, err := m.path()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	is := strings.Join(strings.Fields(string(data)), " ")
	if is == strings.Join(strings.Fields(m.Value), " ") {
		return "", nil
	}
	return fmt.Sprintf("%s is %s, not %s", m.Key, is, m.Value), nil
}

// apply sets the kernel parameter now, and then writes the value to a sysctl file for later boots.
func (m *sysctl) apply(ctx context.Context) error {
	path, err := m.path()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(m.Value+"\n"), newFileMode); err != nil {
		return err
	}
	kept := &fileKeyValue{FileKeyValueMethod: &model.FileKeyValueMethod{
		Path: filepath.Join(cmp.Or(m.SysctlFolder, "/etc/sysctl.d"), "60-muster.conf"), Key: m.Key, Value: m.Value, Separator: " = ",
	}}
	return kept.apply(ctx)
}

// command is the policy method that checks and repairs the node by declared commands.
type command struct {
	runner *run.Runner
	*model.CommandMethod
}

// check runs the declared check command. Exit code 0 means that the node is as declared.
func (m *command) check(ctx context.Context) (string, error) {
	if m.Check == nil {
		return "", errNothingToCheck
	}
	code, output, err := runCommand(ctx, m.runner, run.Command{Shell: m.Check.Shell, Argv: m.Check.Argv})
	if err != nil || code == 0 {
		return "", err
	}
	return fmt.Sprintf("exit code %d: %s", code, output), nil
}

// apply runs the declared repair command.
func (m *command) apply(ctx context.Context) error {
	if m.Apply == nil {
		return errors.New("the component has no command that applies")
	}
	code, output, err := runCommand(ctx, m.runner, run.Command{Shell: m.Apply.Shell, Argv: m.Apply.Argv})
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, lastLine(output))
	}
	return err
}
