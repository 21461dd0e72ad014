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

// timer is the policy method that requires a systemd timer and its service to exist or be absent.
type timer struct {
	*Executor
	*model.TimerMethod
}

// timerName matches names of units without a suffix.
var timerName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}$`)

// files returns the policy methods that write or remove the unit files of the timer and its service.
func (m *timer) files() ([]method, error) {
	if !timerName.MatchString(m.Name) {
		return nil, fmt.Errorf("%q is not a valid name of a timer", m.Name)
	}
	if strings.ContainsAny(m.Calendar+m.TimerMethod.User+m.Command, "\r\n") {
		return nil, fmt.Errorf("the timer %s has a line break in its calendar, user or command", m.Name)
	}
	path := filepath.Join(cmp.Or(m.SystemdFolder, "/etc/systemd/system"), m.Name)
	if m.State == "absent" {
		return []method{&fileAbsent{path + ".timer"}, &fileAbsent{path + ".service"}}, nil
	}
	unit := func(suffix, content string) method {
		return &fileContent{FileContentMethod: &model.FileContentMethod{Path: path + suffix, Content: "# This file is managed by Muster.\n" + content}}
	}
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(m.Command)
	return []method{
		unit(".service", fmt.Sprintf("[Service]\nType=oneshot\nUser=%s\nExecStart=/bin/sh -c \"%s\"\n", cmp.Or(m.TimerMethod.User, "root"), escaped)),
		unit(".timer", fmt.Sprintf("[Timer]\nOnCalendar=%s\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n", m.Calendar)),
	}, nil
}

// running returns the policy method that requires the systemd timer to be running and enabled.
func (m *timer) running() *service {
	return &service{m.Runner, &model.ServiceMethod{Name: m.Name + ".timer", State: "running", Boot: "enabled"}}
}

// check compares the timer's unit files and state with the declaration.
func (m *timer) check(ctx context.Context) (string, error) {
	files, err := m.files()
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if difference, err := file.check(ctx); err != nil || difference != "" {
			return difference, err
		}
	}
	if m.State == "absent" {
		return "", nil
	}
	return m.running().check(ctx)
}

// apply writes the unit files and starts the timer, or stops the timer and removes the files.
func (m *timer) apply(ctx context.Context) error {
	files, err := m.files()
	if err != nil {
		return err
	}
	if m.State == "absent" { // disable fails where the unit is gone already
		_, _, _ = runProgram(ctx, m.Runner, "systemctl", "disable", "--now", "--", m.Name+".timer")
	}
	for _, file := range files {
		if difference, err := file.check(ctx); err != nil || difference == "" {
			if err != nil {
				return err
			}
			continue
		}
		if err := file.apply(ctx); err != nil {
			return err
		}
	}
	if code, output, err := runProgram(ctx, m.Runner, "systemctl", "daemon-reload"); err != nil || code != 0 {
		return cmp.Or(err, fmt.Errorf("systemctl daemon-reload: %s", lastLine(output)))
	}
	if m.State == "absent" {
		return nil
	}
	if code, output, err := runProgram(ctx, m.Runner, "systemctl", "restart", "--", m.Name+".timer"); err != nil || code != 0 {
		return cmp.Or(err, fmt.Errorf("systemctl restart: %s", lastLine(output)))
	}
	return m.running().apply(ctx)
}
