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

// cron is the policy method that requires a job in /etc/cron.d to exist, or not to exist.
type cron struct {
	*Executor
	*model.CronMethod
}

// cronName matches names of files that cron reads.
var cronName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// path returns the path of the job's file in /etc/cron.d.
func (m *cron) path() string { return filepath.Join(cmp.Or(m.CronFolder, "/etc/cron.d"), m.Name) }

// file returns the policy method that writes or removes the job's file in /etc/cron.d.
func (m *cron) file() (method, error) {
	if !cronName.MatchString(m.Name) {
		return nil, fmt.Errorf("%q is not a file name that cron reads", m.Name)
	}
	if m.State == "absent" {
		return &fileAbsent{m.path()}, nil
	}
	if strings.ContainsAny(m.Schedule+m.CronMethod.User+m.Command, "\r\n") {
		return nil, fmt.Errorf("the cron job %s has a line break in its schedule, user or command", m.Name)
	}
	line := fmt.Sprintf("%s %s %s", m.Schedule, cmp.Or(m.CronMethod.User, "root"), m.Command)
	return &fileContent{FileContentMethod: &model.FileContentMethod{Path: m.path(), Content: line + "\n"}}, nil
}

// check compares the file in /etc/cron.d with the declared job.
func (m *cron) check(ctx context.Context) (string, error) {
	file, err := m.file()
	if err != nil {
		return "", err
	}
	return file.check(ctx)
}

// apply writes or removes the job's file in /etc/cron.d. The cron service notices a change within a minute.
func (m *cron) apply(ctx context.Context) error {
	file, err := m.file()
	if err != nil {
		return err
	}
	return file.apply(ctx)
}
