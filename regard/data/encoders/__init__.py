"""One file for each network from elsewhere that makes maps of pictures. The folder is the registry."""
