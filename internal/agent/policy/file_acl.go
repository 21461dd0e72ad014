package policy

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/run"
	"github.com/muster-fleet/muster/internal/model"
	rules "github.com/muster-fleet/muster/internal/policy"
)

// fileACL is the policy method that requires certain entries in the access control list of a path.
type fileACL struct {
	runner *run.Runner
	*model.FileACLMethod
}

// check compares the entries of the path's access control list with the declared entries. The program getfacl prints
// the list.
func (m *fileACL) check(ctx context.Context) (string, error) {
	if !filepath.IsAbs(m.Path) {
		return "", fmt.Errorf("the path %q is not absolute", m.Path)
	}
	for _, entry := range m.Entries {
		if !rules.IsACLEntry(entry) {
			return "", fmt.Errorf("%q is not an entry of an access control list", entry)
		}
	}
	code, output, err := runProgram(ctx, m.runner, "getfacl", "--absolute-names", "--omit-header", "--no-effective", "--", m.Path)
	if err != nil {
		return "", err
	}
	if code != 0 {
		return "", fmt.Errorf("getfacl: %s", lastLine(output))
	}
	entries := strings.Fields(output)
	var wrong []string
	if m.Absent {
		for _, entry := range entries {
			if kind, rest, _ := strings.Cut(entry, ":"); kind == "default" || kind == "mask" || !strings.HasPrefix(rest, ":") {
				wrong = append(wrong, entry)
			}
		}
		if len(wrong) > 0 {
			return fmt.Sprintf("%s has the entries %s", m.Path, model.ListFirst(wrong, 5)), nil
		}
		return "", nil
	}
	for _, entry := range m.Entries {
		if !slices.Contains(entries, entry) {
			wrong = append(wrong, strconv.Quote(entry))
		}
	}
	if len(wrong) > 0 {
		return fmt.Sprintf("%s lacks the entries %s", m.Path, model.ListFirst(wrong, 5)), nil
	}
	return "", nil
}

// apply sets the declared entries of the path's access control list, or clears the list if declared absent.
func (m *fileACL) apply(ctx context.Context) error {
	args := []string{"setfacl", "--remove-all"}
	if !m.Absent {
		args = []string{"setfacl", "--modify", strings.Join(m.Entries, ",")}
	}
	code, output, err := runProgram(ctx, m.runner, append(args, "--", m.Path)...)
	if err == nil && code != 0 {
		err = fmt.Errorf("setfacl: %s", lastLine(output))
	}
	return err
}
