//go:build !unix

package asset

import "os"

// syncDir does nothing on Windows, because NTFS journals file names.
func syncDir(*os.Root, string) error { return nil }
