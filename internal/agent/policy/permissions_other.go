//go:build !unix

package policy

import (
	"context"
	"errors"
	"io/fs"

	"github.com/muster-fleet/muster/internal/model"
)

// copyOwner does nothing: the variant for systems other than Unix, where files have no numeric owner.
func copyOwner(string, fs.FileInfo) error { return nil }

// filePermissions is the method that requires a file or folder to have a certain mode, owner and group.
type filePermissions struct{ *model.FilePermissionsMethod }

// check returns an error, because only Unix has these permissions.
func (*filePermissions) check(context.Context) (string, error) {
	return "", errors.New("filePermissions works on Unix alone")
}

// apply returns an error, because only Unix has these permissions.
func (*filePermissions) apply(context.Context) error { return errors.ErrUnsupported }
