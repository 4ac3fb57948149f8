$servers = @($map | Where-Object { $_.Server -eq $Server })
if ($servers.Count -eq 0) { throw "the plan has no server called $Server" }
foreach ($volume in $servers) {
    $disk = Get-Disk -Number ($FirstDisk + $volume.Volume - 1)
    if ($disk.PartitionStyle -ne 'RAW') { throw "disk $($disk.Number) is not empty; no disk was changed" }
}
foreach ($volume in $servers) {
    $number = $FirstDisk + $volume.Volume - 1
    $root = "$volumesRoot\ExVol$($volume.Volume)"
    if (-not $PSCmdlet.ShouldProcess("disk $number", "format it and mount it at $root")) { continue }
    Set-Disk -Number $number -IsOffline $false
    Initialize-Disk -Number $number -PartitionStyle GPT
    $partition = New-Partition -DiskNumber $number -UseMaximumSize
    $partition | Format-Volume -FileSystem NTFS -AllocationUnitSize 65536 `
        -NewFileSystemLabel "ExVol$($volume.Volume)" -Confirm:$false | Out-Null
    $mounts = @($root) + @($volume.Folders | ForEach-Object { "$databasesRoot\$_" })
    foreach ($mount in $mounts) {
        [void][System.IO.Directory]::CreateDirectory($mount)
        $partition | Add-PartitionAccessPath -AccessPath $mount
    }
    foreach ($folder in $volume.Folders) {
        [void][System.IO.Directory]::CreateDirectory("$databasesRoot\$folder\$folder.db")
        [void][System.IO.Directory]::CreateDirectory("$databasesRoot\$folder\$folder.log")
    }
}
