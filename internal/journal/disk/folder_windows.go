package disk

import "golang.org/x/sys/windows"

// processEnded always returns false on Windows, where child processes never share locks. Child processes share
// no lockGroup there.
func processEnded(int) bool { return false }

// syncDir does nothing on Windows, where new file names survive a crash without a sync. NTFS journals the names in
// folders.
func syncDir(string) error { return nil }

// free returns the free bytes of the disk with a folder.
func free(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var room uint64
	err = windows.GetDiskFreeSpaceEx(path, &room, nil, nil)
	return int64(room), err
}
