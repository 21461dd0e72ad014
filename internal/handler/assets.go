package handler

import (
	"context"
	"errors"

	"github.com/muster-fleet/muster/internal/model"
)

// MissingAsset is why a command did not begin, or JavaScript was not run: something that it names is
// not here, and may come.
type MissingAsset struct{ Err error }

func (e *MissingAsset) Error() string { return e.Err.Error() }
func (e *MissingAsset) Unwrap() error { return e.Err }

// assets returns the Assets that a command names. One that is missing may arrive later, so the error is a MissingAsset and
// not final. The caller calls done when the command has ended.
func (o *Out) assets(ctx context.Context, names []string) (list []model.AssetDir, done func(), err error) {
	switch {
	case len(names) == 0:
		return nil, func() {}, nil
	case o.opts.Assets == nil:
		return nil, nil, errors.New("this server keeps no Assets")
	}
	list, done, err = o.opts.Assets(ctx, names)
	if err != nil {
		return nil, nil, &MissingAsset{err}
	}
	return list, done, nil
}

// argvOf is a command as a list.
func argvOf(c *model.Command) []string {
	if c.Argv == nil {
		return []string{"/bin/sh", "-c", c.Shell}
	}
	return c.Argv
}

// withAssetPath returns a command whose program is looked for in the PATH of its assets, too: by a shell, which
// it takes the place of.
func withAssetPath(argv []string, assets []model.AssetDir) []string {
	if len(assets) == 0 || len(argv) == 0 || argv[0] == "/bin/sh" {
		return argv
	}
	return append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, argv...)
}
