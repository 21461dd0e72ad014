//go:build !unix

package asset

import "os"

// syncDir syncs a folder's file names to the disk; on Windows it does nothing, because NTFS journals them.
func syncDir(*os.Root, string) error { return nil }
