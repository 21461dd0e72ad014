//go:build !unix

package asset

import "os"

// syncDir does nothing: NTFS journals names itself.
func syncDir(*os.Root, string) error { return nil }
