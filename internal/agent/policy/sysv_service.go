package policy

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// sysvService is the policy method for a service with a System V init script, on machines without systemctl.
type sysvService struct {
	*Executor
	*model.ServiceMethod
}

// sysvName matches names of init scripts.
var sysvName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]*$`)

// sysvUnknown matches the output of service for a name without an init script. Red Hat, Debian and OpenRC exit with 1 then, as
// for a dead service.
var sysvUnknown = regexp.MustCompile(`unrecognized service|does not exist`)

// newService returns the policy method for a systemd service, or a System V service if systemctl is missing.
func (r *directiveRun) newService(m *model.ServiceMethod) method {
	if _, ok := findProgram(r.Runner, "systemctl"); ok {
		return &service{r.Runner, m}
	}
	of := *m
	of.Name = strings.TrimSuffix(m.Name, ".service")
	return &sysvService{r.Executor, &of}
}

// check asks the init script for the service's state, and compares the start links with the declaration. The exit code
// tells the state by the Linux Standard Base. The links are those of the run levels 2 to 5.
func (m *sysvService) check(ctx context.Context) (string, error) {
	if !sysvName.MatchString(m.Name) {
		return "", fmt.Errorf("%q is not a valid name of an init script", m.Name)
	}
	var wrong []string
	if m.State != "" {
		code, output, err := runProgram(ctx, m.Runner, "service", m.Name, "status")
		if err != nil {
			return "", err
		}
		if code > 3 || code > 0 && sysvUnknown.MatchString(output) {
			return "", fmt.Errorf("the command service %s status failed with exit code %d: %s", m.Name, code, lastLine(output))
		}
		if is := map[bool]string{true: "running", false: "stopped"}[code == 0]; is != m.State {
			wrong = append(wrong, fmt.Sprintf("service %s is %s, not %s", m.Name, is, m.State))
		}
	}
	if m.Boot != "" {
		links, err := filepath.Glob(filepath.Join(cmp.Or(m.RunLevelFolder, "/etc"), "rc[2-5].d", "S[0-9][0-9]"+m.Name))
		if err != nil {
			return "", err
		}
		if is := map[bool]string{true: "enabled", false: "disabled"}[len(links) > 0]; is != m.Boot {
			wrong = append(wrong, fmt.Sprintf("service %s is %s, not %s", m.Name, is, m.Boot))
		}
	}
	return strings.Join(wrong, "; "), nil
}

// apply enables or disables the service by chkconfig or update-rc.d, and starts or stops the service.
func (m *sysvService) apply(ctx context.Context) error {
	var commands [][]string
	if m.Boot != "" {
		enable := m.Boot == "enabled"
		switch program, _ := findProgram(m.Runner, "chkconfig", "update-rc.d"); {
		case program == "chkconfig" && enable:
			commands = append(commands, []string{"chkconfig", "--add", m.Name}, []string{"chkconfig", m.Name, "on"})
		case program == "chkconfig":
			commands = append(commands, []string{"chkconfig", m.Name, "off"})
		case enable:
			commands = append(commands, []string{"update-rc.d", m.Name, "defaults"}, []string{"update-rc.d", m.Name, "enable"})
		default:
			commands = append(commands, []string{"update-rc.d", m.Name, "disable"})
		}
	}
	if verb := map[string]string{"running": "start", "stopped": "stop"}[m.State]; verb != "" {
		commands = append(commands, []string{"service", m.Name, verb})
	}
	for _, command := range commands {
		code, output, err := runProgram(ctx, m.Runner, command...)
		if err == nil && code != 0 {
			err = fmt.Errorf("%s: exit code %d: %s", strings.Join(command, " "), code, lastLine(output))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
