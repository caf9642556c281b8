#!/usr/bin/env bash
# open-mpi.sh RANKS MODEL OUT [OPTIONS]: quantizes a checkpoint's weights, one part of its files in each rank, and joins
# the parts. MPIRUN holds further options of mpirun, such as "--hostfile hosts". MODEL and OUT lie on a file system that
# all ranks see. Run again after a failure it goes on where the ranks stopped.
set -euo pipefail

ranks=$1 model=$2 out=$3
shift 3
# A rank uses all processors of its machine, unless --threads says otherwise.
# shellcheck disable=SC2016,SC2086  # expanded by the ranks; several words
mpirun -n "$ranks" --bind-to none -x PATH ${MPIRUN:-} bash -euo pipefail -c '
  model=$1 out=$2
  shift 2
  k=$((OMPI_COMM_WORLD_RANK + 1))
  part=$out.parts/$k
  if [[ ! -e $part/hif8-part.json ]]; then
    hif8-calibrate "$model" -o "$part" --recipe cast --shards "$k/$OMPI_COMM_WORLD_SIZE" "$@"
  fi' part "$model" "$out" "$@"
hif8-calibrate merge "$out.parts"/* -o "$out"
rm -r "$out.parts"
