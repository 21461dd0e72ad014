//go:build !unix

package policy

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/muster-fleet/muster/internal/model"
)

// copyOwner does nothing, because files have numeric owners only on Unix.
func copyOwner(*os.File, fs.FileInfo) error { return nil }

// filePermissions is the policy method that requires a certain mode, owner and group of a file or folder.
type filePermissions struct{ *model.FilePermissionsMethod }

// check returns an error, because file modes and owners exist only on Unix.
func (*filePermissions) check(context.Context) (string, error) {
	return "", errors.New("filePermissions works on Unix alone")
}

// apply returns an error, because file modes and owners exist only on Unix.
func (*filePermissions) apply(context.Context) error { return errors.ErrUnsupported }
