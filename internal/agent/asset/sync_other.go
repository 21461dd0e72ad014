//go:build !unix

package asset

import "os"

// syncDir does nothing: NTFS journals names itself and has no call for it.
func syncDir(*os.Root, string) error { return nil }
