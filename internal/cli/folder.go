package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// readFolder reads what is declared in a folder and in those within it, by name. What
// begins with a dot is not looked at: .git, .github, .gitlab-ci.yml. A folder behind a
// symbolic link is refused and not passed over: with --prune, what is passed over is
// deleted.
func (a *app) readFolder(root string) (all []declaration, err error) {
	var flaws model.Flaws
	root = strings.TrimRight(root, "/") + "/" // also where it is itself behind a link
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if path != root && d.Type()&fs.ModeSymlink != 0 {
			if info, err := os.Stat(path); err != nil {
				return err
			} else if info.IsDir() {
				return model.Errorf(model.Invalid, "%s is a symbolic link to a folder, which is not followed", path).
					WithHint("name that folder too: -f %s -f %s, or take the link away", root, path)
			}
		}
		if d.IsDir() {
			return nil
		}
		switch strings.ToLower(filepath.Ext(path)) {
		case ".yaml", ".yml", ".json":
			docs, err := a.readPath(path)
			found, err := flawed(err)
			if err != nil {
				return err
			}
			all, flaws = append(all, docs...), append(flaws, found...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, flaws.Err()
}
