rate=0.5; n=10
while getopts 'r:n:' flag
do
  case $flag in
    (r) rate=$OPTARG;;
    (n) n=$OPTARG;;
  esac
done
